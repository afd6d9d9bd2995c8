// Package words puts what package admin reports into English for operators: the state and the cause
// of a job, what became of a tick, what is wrong with an instance. What is wrong with a job is said
// by package reason. swctl prints it, and package web shows it. For programs, there are the types
// of package admin and their JSON.
//
// What applications and operators wrote is not escaped: the caller makes it printable
// (plain.Printable).
package words
