// Package deletion deletes a job with all its nodes: for an operator who cancels it, and for the
// instance that removes one which is done.
package deletion
