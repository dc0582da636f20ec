package workers

import "time"

// warmLocked sets the weight of a worker that is being warmed: from
// Config.WarmupShare when it began to 1 at the end of Config.WarmupTime. Its
// caches are empty, and its first requests compile kernels; with the same share
// as the others it would make every request wait that prefers it.
func (r *Registry) warmLocked(w *Worker, now time.Time) {
	past := float64(now.Sub(w.warmFrom)) / float64(r.cfg.WarmupTime)
	if past >= 1 || r.cfg.WarmupTime <= 0 {
		w.warmFrom, w.load.Weight = time.Time{}, 1
		return
	}
	w.load.Weight = r.cfg.WarmupShare + (1-r.cfg.WarmupShare)*max(past, 0)
}

// beginWarmLocked begins to warm w, if that is configured.
func (r *Registry) beginWarmLocked(w *Worker, now time.Time) {
	if r.cfg.WarmupTime > 0 {
		w.warmFrom = now
		r.warmLocked(w, now)
	}
}
