// Package simkit is the common part of the random simulations: the flags that say how many
// scenarios run, the search through their seeds on all cores, and the story of a scenario that
// failed.
//
// By default tests run a tenth of their scenarios, about a second's worth for each package, and
// leave out the slow searches. With -sim.all they run everything, and with -sim.all -sim.share=0.5
// the slow searches and half of the scenarios. The flags work in every package whose tests import
// this one:
//
//	go test ./singleworker/internal/lease -sim.all
//	go test ./singleworker/internal/lease -run TestSimulation -sim.base=17 -sim.seeds=1 -v
package simkit
