// Package deploy has no code: beside it are the files that start instances in containers, in
// Kubernetes and under systemd. Its tests check them, and run the commands that are in them.
package deploy
