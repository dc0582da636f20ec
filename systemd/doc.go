// Package systemd speaks with the service manager that started the process: it
// tells how the service is, takes over sockets that were opened for it, and says
// how often a sign of life is wanted. It also starts the process that is to take
// the place of this one as the service ([Command]). Without a service manager
// everything else is a no-op, so that nobody has to ask whether there is one.
//
// A [Manager] is asked about other units, and restarts them: that is for commands,
// the daemon itself does not speak D-Bus.
//
// What is told is the protocol of sd_notify(3), what is taken over that of
// sd_listen_fds(3). The unit files are in this directory too.
//
// # Concurrency
//
// All functions are safe for concurrent use, but Succeeding and Listeners: they
// empty the environment of what they have taken, and are called once, in this
// order.
package systemd
