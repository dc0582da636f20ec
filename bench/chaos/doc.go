// Command chaos runs the real router as a process in front of simulated engines
// that are processes too, and are killed, stopped, restarted, told to fail,
// removed and added while clients of every temper send requests. Then it looks
// whether the router has kept every invariant of ARCHITECTURE.md.
//
// It is no load test and no benchmark: the rate is bounded so that two cores
// suffice, and the only figures that matter are how requests ended.
//
// # Life of a run
//
// One dialect after the other, half of the time each (run.go):
//
//  1. Three prefill and three decode engines start on fixed ports, and a router
//     which has the first of each from flags and the others from a discovery
//     file. What the router is at rest is noted.
//  2. Clients (client.go) send requests (request.go) of which every answer is
//     judged (answer.go), while the schedule (schedule.go) is played on the
//     engines (player.go). At any moment one engine of either role is well.
//  3. All engines are made well. Within a stated time every request must
//     succeed, and every engine must have its share again (recover.go).
//  4. Clients misbehave with all engines well: no engine may be blamed, and
//     each must hear soon that its clients have left.
//  5. At rest nothing may be left, on the engines or in the router, which is
//     then ended by SIGTERM (rest.go).
//
// # The seed
//
// Schedule and requests follow from one seed, which is printed first. The same
// seed gives the same events at the same times and each client the same
// requests in the same order. What meets what is left to the machine.
//
// # What checks which invariant
//
//	I1   smg_worker_requests_active is 0 at rest; the log has no panic
//	I2   sim: no room, rid or block was used twice, no KV of another prompt
//	I3   phase 4: engines are idle soon after the last client has left, though
//	     answers of several seconds were among those it left
//	I4   streams end in [DONE] and are whole, or in an error event and nothing after it
//	I5   every text is the one that the prompt has
//	I6   clients send hand-off keys of their own: sim would tell
//	I7   phase 4: no leg counts as failed, no breaker moves
//	I8   every gauge of work in progress is 0 at rest
//	I9   goroutines, open files and memory are back near where they were
//	I10  what decode computed again is printed beside what the router counts
package main
