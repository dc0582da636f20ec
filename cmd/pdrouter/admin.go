package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pdrouter/admin"
	"pdrouter/keys"
	"pdrouter/workers"

	"go.uber.org/zap"
)

const (
	// adminHead bounds the head of an admin request, in bytes.
	adminHead = 16 << 10

	// adminHeadTime is how long that may take to come.
	adminHeadTime = 10 * time.Second

	// maxSocketPath is the longest path that a socket can have on every system
	// with the folder that it is made in, in bytes.
	maxSocketPath = 80
)

func (in *intake) adminSettings() []setting {
	c := &in.cfg
	return []setting{
		{name: "admin-socket", value: newText(&c.AdminSocket, "path"), usage: "unix socket of the admin API, for this user and group; auto: /run/pdrouter/admin.sock, else /run/user/UID/pdrouter/admin.sock, else none; none: no socket"},
		{name: "admin-host", value: newText(&c.AdminHost, "address"), usage: "where --admin-port is listened at; without TLS (--tls-listeners) only loopback"},
		{name: "admin-port", value: newWhole(&c.AdminPort), usage: "a port for the admin API too, with --admin-api-key; 0: none"},
		{name: "admin-api-key", value: newKeys(&in.adminKeys, &in.adminSecret), takes: takesOne, secret: true, usage: "bearer key of the admin API, at every place but the socket; repeat for several"},
		{name: "admin-api-key-file", value: newText(&c.AdminKeyFile, "file"), usage: "file with such keys, as --api-key-file has them"},
		{name: "admin-on-data-listener", value: newSwitch(&c.AdminOnData), usage: "serve the admin API at --port too, as smg does: with --admin-api-key, else with --api-key; without any key only on loopback"},
	}
}

// adminIsAskedFor reports whether the admin API was asked for, so that a
// daemon may begin without workers.
func (c Config) adminIsAskedFor() bool {
	return c.AdminOnData || c.AdminPort != 0 || c.AdminSocket != anySocket && c.AdminSocket != noSocket
}

// checkAdmin reports places for the admin API that would let in whom nobody
// meant to. Whoever uses it makes the router send prompts anywhere.
func (c Config) checkAdmin() error {
	var faults []error
	switch {
	case c.AdminSocket == anySocket || c.AdminSocket == noSocket:
	case !filepath.IsAbs(c.AdminSocket):
		faults = append(faults, fmt.Errorf("admin-socket: %q is not an absolute path, auto or none", c.AdminSocket))
	case len(c.AdminSocket) > maxSocketPath:
		faults = append(faults, fmt.Errorf("admin-socket: %q is longer than %d bytes", c.AdminSocket, maxSocketPath))
	}
	if c.AdminPort != 0 && len(c.AdminKeys) == 0 {
		faults = append(faults, fmt.Errorf("admin-port: %d needs --admin-api-key: every user of this host can reach a port", c.AdminPort))
	}
	if c.AdminPort != 0 && !workers.IsLoopback(c.AdminHost) && c.tlsPlan(socketAdmin).cert == "" {
		faults = append(faults, fmt.Errorf("admin-host: %q is not loopback, and the key would cross the network in clear; give --tls-listeners data admin, or tunnel to it (ssh -L)", c.AdminHost))
	}
	named := func(k keys.Key) bool { return k.Name != "" }
	if c.AdminOnData && len(c.AdminKeys) == 0 && slices.ContainsFunc(c.Router.APIKeys, named) {
		faults = append(faults, errors.New("admin-on-data-listener: a key that is a tenant's, or somebody's by name, must not open it; give --admin-api-key"))
	}
	for _, key := range c.AdminKeys {
		if key.IsEmpty() {
			faults = append(faults, errors.New("admin-api-key: must not be empty"))
		}
	}
	if c.AdminOnData && len(c.adminDataAccess().Keys) == 0 && !c.hostIsLocal() {
		faults = append(faults, fmt.Errorf("admin-on-data-listener: without a key whoever reaches %s could send prompts anywhere; give --admin-api-key or --api-key, or --host 127.0.0.1", c.Host))
	}
	return errors.Join(faults...)
}

// hostIsLocal reports whether only this host reaches the data listener.
func (c Config) hostIsLocal() bool {
	_, socket := socketPath(c.Host)
	return socket || workers.IsLoopback(c.Host)
}

// adminDataAccess returns who may use the admin API at the data listener. A
// key of its own shuts out those of clients.
func (c Config) adminDataAccess() admin.Access {
	if len(c.AdminKeys) > 0 {
		return admin.Access{Keys: c.AdminKeys}
	}
	return admin.Access{Keys: c.Router.APIKeys, Loopback: len(c.Router.APIKeys) == 0}
}

// An adminDoor is one listener of the admin API's own.
type adminDoor struct {
	net.Listener
	guarded bool // by --admin-api-key
}

func (d *daemon) adminDoors() []adminDoor {
	doors := slices.Clone(d.adminHanded)
	if d.adminSocket != nil {
		doors = append(doors, adminDoor{d.adminSocket, false})
	}
	if d.adminPort != nil {
		doors = append(doors, adminDoor{d.adminPort, true})
	}
	return doors
}

// serveAdmin serves one listener of the admin API until ctx ends.
func (d *daemon) serveAdmin(ctx, serving context.Context, door adminDoor) error {
	srv := d.server(d.admin.HandlerBy(func() admin.Access {
		if !door.guarded {
			return admin.Access{}
		}
		return admin.Access{Keys: d.current.Load().AdminKeys}
	}))
	srv.ReadHeaderTimeout, srv.MaxHeaderBytes = min(adminHeadTime, cmp.Or(d.cfg.HeaderRead, adminHeadTime)), adminHead
	srv.TLSConfig, srv.ConnState = d.tls.of(socketAdmin), d.quotas[socketAdmin].note
	if err := d.serveUntil(ctx, serving, srv, d.quotas[socketAdmin].on(door.Listener)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve admin at %s: %w", door.Addr(), err)
	}
	return nil
}

// clientHandler returns what the data listener serves.
func (d *daemon) clientHandler() http.Handler {
	if !d.cfg.AdminOnData {
		return d.handler
	}
	operators := d.admin.HandlerBy(func() admin.Access { return d.current.Load().adminDataAccess() })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admin.Serves(r.URL.Path) {
			operators.ServeHTTP(w, r)
			return
		}
		d.handler.ServeHTTP(w, r)
	})
}

// logSurfaces says in one line what is open to whom.
func (d *daemon) logSurfaces() {
	whom := func(keys int, flag string) string {
		if keys > 0 {
			return "with " + flag
		}
		return "to anybody who reaches it"
	}
	fields := []zap.Field{
		zap.String("data", fmt.Sprintf("%s %s", d.data.Addr(), whom(len(d.cfg.Router.APIKeys), "--api-key"))),
		zap.String("metrics", fmt.Sprintf("%s %s", d.scrape.Addr(), whom(0, ""))),
		zap.String("admin", strings.Join(d.adminSurfaces(whom), ", ")),
	}
	if d.probe != nil {
		fields = append(fields, zap.String("probes", fmt.Sprintf("%s %s", d.probe.Addr(), whom(0, ""))))
	}
	d.log.Info("open", fields...)
	if d.noSocket != "" {
		d.log.Warn("no admin socket: name one with --admin-socket, or give none to do without", zap.String("why", d.noSocket))
	}
}

func (d *daemon) adminSurfaces(whom func(keys int, flag string) string) []string {
	var all []string
	if d.adminSocket != nil {
		path := d.cfg.AdminSocket
		if s, ok := d.adminSocket.(*socketListener); ok {
			path = s.path
		}
		all = append(all, path+" to its owner and group")
	}
	for _, door := range d.adminHanded {
		all = append(all, fmt.Sprintf("%s from the service manager", door.Addr()))
	}
	if d.adminPort != nil {
		all = append(all, fmt.Sprintf("%s with --admin-api-key", d.adminPort.Addr()))
	}
	if d.cfg.AdminOnData {
		flag := "--api-key"
		if len(d.cfg.AdminKeys) > 0 {
			flag = "--admin-api-key"
		}
		all = append(all, fmt.Sprintf("%s %s", d.data.Addr(), whom(len(d.cfg.adminDataAccess().Keys), flag)))
	}
	if len(all) == 0 {
		return []string{"nowhere"}
	}
	return all
}
