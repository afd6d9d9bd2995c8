package runner

// full reports whether as many runs are in progress as may be. A run counts from the decision to
// claim it until its result is recorded, so that there are never more than the limit. Runs of jobs
// that always run do not count: they would keep others from running for ever.
func (r *Runner) full() bool {
	return r.cfg.MaxRunning > 0 && len(r.running)-r.endless >= r.cfg.MaxRunning
}

// queue makes a job wait until a run of another one has ended. The decision is made then, by the
// time that it is: a tick that has waited for too long is subject to the job's misfire policy.
func (r *Runner) queue(j *job) {
	r.release() // it waits for the results
	if j.waitsSince.IsZero() {
		j.waitsSince = r.cfg.Wall.Now()
	}
	if !j.inLine {
		j.inLine = true
		r.line = append(r.line, j)
		r.inLine.Store(int64(len(r.line)))
	}
}

// done forgets the run of a job, and lets those that wait begin theirs.
func (r *Runner) done(name string) {
	if act := r.running[name]; act != nil {
		act.noLook()
		if act.always {
			r.endless--
		}
	}
	delete(r.running, name)
	for len(r.line) > 0 && !r.full() {
		j := r.line[0]
		r.line = r.line[1:]
		j.inLine = false
		r.decide(j)
	}
	r.inLine.Store(int64(len(r.line)))
	r.atLimit.Store(r.full())
}
