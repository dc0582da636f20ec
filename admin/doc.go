// Package admin is what an operator may ask of a running daemon, and order it
// to do: the workers API in smg's shapes, drain and undrain, the engines' caches
// and loads, reading its configuration anew, and the requests, each with how far
// it is and how its pair was chosen. It does not open listeners, and it is no part of what
// clients see.
//
// # Routes
//
//	GET    /workers[?model=]      all workers
//	POST   /workers               add one
//	GET    /workers/{id}          one
//	PUT    /workers/{id}          replace it: it is looked at anew, its requests go on
//	PATCH  /workers/{id}          change labels, priority, cost, api_key
//	DELETE /workers/{id}          no new requests; forgotten when its last has ended
//	POST   /workers/{id}/drain    no new requests, until undrain (ours, not smg's)
//	POST   /workers/{id}/undrain
//	POST   /flush_cache           empties the prefix cache of every engine
//	GET    /get_loads             what the engines said of themselves last
//	POST   /reload                the configuration is read anew (this and all below is ours)
//	POST   /config/diff           what it would change to be the one sent
//	GET    /requests              those that run, the oldest first
//	GET    /requests/finished     the last ones that have ended, the latest first
//	GET    /requests/{id}         all with that ID
//	GET    /requests/next         the first one after another one, for who watches
//	GET    /status                the daemon, its workers and lines at one moment
//	POST   /upgrade               another process, of the program as it is on disk now, takes its place
//
// What changes something is answered 202: a new worker is looked at in the
// background, and GET /workers/{id} says in job_status how far that is.
//
// # Who may
//
// An [Access] belongs to each listener. Adding a worker makes the daemon send
// prompts to any address, and connect to it: that is the operator's right, and
// the reason why every listener but a unix socket asks for a key, or is on
// loopback and refuses browsers.
//
// # Invariants
//
//   - A worker's api_key comes in and never goes out, in answers or in logs.
//   - Every answer is JSON. An error is {"error","code"}, as smg's.
//   - A body has a bound in size and in time, and a key that is not known in it
//     is an error: what is not done must not look as if it were.
//
// # Concurrency
//
// An API is safe for concurrent use, and starts no goroutine.
package admin
