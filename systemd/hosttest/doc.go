// Command hosttest installs the package on a real systemd and looks whether the
// router is a good service there: it starts, restarts, crashes, hangs, is wrongly
// configured, upgraded and purged, under load where that matters.
//
// systemd is this machine's own, booted as PID 1 of new namespaces over an overlay
// of the root directory (boot.sh), so that it needs root, and nothing of the
// machine is changed. Engines are simulated, as units of their own.
//
// # Life of a run
//
// Outside (main.go), the program boots that systemd and runs itself again within
// it. There it goes through the steps (steps.go) in order, since each one leaves
// behind what the next one begins with, and prints a line for each. A step that
// fails does not keep the next ones from being tried.
//
// # What counts
//
// Every answer under load is read to its end (load.go). A request is refused if no
// connection was to be had, failed if it got no answer or another than 200, and cut
// if its stream broke off. Where nothing may be lost, all three are 0; where the
// process is killed, none may be refused, and no more lost than were under way.
package main
