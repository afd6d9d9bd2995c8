// Package agenda orders things by the moment at which somebody wants to look at them next, so that
// a look at the things that are due costs nothing for the others.
//
// A change of a thing from outside wakes it: the next look takes it. Who has looked at it says when
// that is to be done again, and of several the earliest counts. Who waits for an answer asks for
// the next look, until the answer is there, or has the answer wake the thing.
//
// A thing that nobody has woken would be forgotten. So each look also takes some things that are
// not due, in turn. If somebody finds something to do at one of them, it was missed, and that is
// logged as the fault that it is.
package agenda
