package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"

	"pdrouter/doctor"
	"pdrouter/systemd"
	"pdrouter/workers"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// usualConfig is the file of the service, which is examined if nothing is said.
const usualConfig = "/etc/pdrouter/pdrouter.yaml"

// errFaults ends a command that has said already what is wrong.
var errFaults = errors.New("there are faults")

// A doctorOrder is what doctor is told, beside what serve takes.
type doctorOrder struct {
	in     *intake
	asJSON bool
	unit   string
}

func newDoctorCommand(in *intake) *cobra.Command {
	o := doctorOrder{in: in}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out whether host, engines and configuration fit one another",
		Long: `doctor takes what serve takes, and finds out whether it will work: whether the
engines answer and are what they were configured to be, whether prefill and decode
agree, whether hand-offs reach one another as far as that can be known from here,
keep-alive times, clocks, ports, limits, who may read keys, and what systemd knows of
the router's unit. For what is wrong it says what to do.

It changes nothing and sends no prompt; it works while a router runs. Without flags
it is about ` + usualConfig + `, if that is there.

The exit status is 1 if there is a fault, else 0.`,
		Example: `  pdrouter doctor
  pdrouter doctor --config /etc/pdrouter/pdrouter.yaml --json
  pdrouter doctor --prefill http://127.0.0.1:21000 21200 --decode http://127.0.0.1:21100`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	in.bind(cmd.Flags())
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON object with all findings")
	cmd.Flags().StringVar(&o.unit, "unit", "pdrouter.service", "`name` of the router's unit")
	return cmd
}

func (o *doctorOrder) run(cmd *cobra.Command) error {
	if o.in.file == "" && len(o.in.given) == 0 {
		if _, err := os.Stat(usualConfig); err == nil {
			o.in.file = usualConfig
		}
	}
	shown := newScreen(cmd.OutOrStdout())
	cfg, err := o.in.load()
	var found []doctor.Finding
	for _, line := range faultLines(err) {
		found = append(found, doctor.Finding{Check: doctor.Configuration, Status: doctor.Fault, Where: o.in.file, What: line})
	}
	for _, w := range o.in.warnings {
		found = append(found, doctor.Finding{Check: doctor.Configuration, Status: doctor.Warning, Where: "--" + w.Setting, What: w.Text})
	}
	if err == nil {
		found = append(found, doctor.Finding{Check: doctor.Configuration, Status: doctor.OK, Where: o.in.file, What: "it is valid"})
		found = append(found, o.examine(cmd.Context(), cfg, shown)...)
	}
	if cmd.Context().Err() != nil {
		return errors.New("doctor: interrupted")
	}
	if o.asJSON {
		err := json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
			OK       bool             `json:"ok"`
			Findings []doctor.Finding `json:"findings"`
		}{doctor.Count(found, doctor.Fault) == 0, found})
		if err != nil {
			return err
		}
	} else {
		tellFindings(shown, found)
	}
	if doctor.Count(found, doctor.Fault) > 0 {
		return errFaults
	}
	return nil
}

// examine examines what cfg says, and the router that runs, if one does.
func (o *doctorOrder) examine(ctx context.Context, cfg Config, shown *screen) []doctor.Finding {
	c := o.caseOf(cfg)
	place := adminPlace{socket: cfg.AdminSocket}
	var list []doctor.Finding
	if client, err := place.client(); err == nil {
		list, c.PID = ofRouter(ctx, client), pidAt(ctx, client.where)
		client.close()
	}
	if manager, err := systemd.DialManager(ctx); err == nil {
		defer manager.Close()
		c.Manager = manager
		if c.PID <= 1 { // its socket is systemd's
			c.PID = 0
			if units, err := manager.Units(ctx, o.unit); err == nil && len(units) == 1 {
				c.PID = units[0].MainPID
			}
		}
	}
	var done, all atomic.Int64
	all.Store(1)
	stop := func(bool) {}
	if !o.asJSON {
		stop = shown.move(func(int) string {
			share := float64(done.Load()) / float64(all.Load())
			return fmt.Sprintf("examining  %s  %d of %d", shown.bar(waitBar, fill{share, "█", green}), done.Load(), all.Load())
		})
	}
	found := doctor.Examine(ctx, c, func(n, of int) {
		done.Store(int64(n))
		all.Store(int64(of))
	})
	stop(false)
	return append(found, list...)
}

// caseOf brings cfg into the doctor's words.
func (o *doctorOrder) caseOf(cfg Config) doctor.Case {
	c := doctor.Case{
		Dialect: cfg.Workers.Dialect, EngineIdle: cfg.Exchange.IdleTimeout, ClientIdle: cfg.IdleConnection,
		MostRequests: cfg.Workers.Admission.MaxInFlight, Unit: o.unit, Config: o.in.file, Proc: "/proc",
	}
	tlsForWorkers, _ := cfg.workerTLS() // load has opened the files
	c.Transport = func() *http.Transport { return &http.Transport{TLSClientConfig: tlsForWorkers.Clone()} }
	fleet, _ := cfg.fleet() // likewise
	var n [2]int
	for _, s := range fleet.Specs {
		w := doctor.Worker{ID: fmt.Sprintf("%s-%d", s.Role, n[s.Role]), Role: s.Role.String(), URL: s.URL, Key: s.APIKey, BootstrapHost: s.BootstrapHost, BootstrapPort: max(s.BootstrapPort, 0)}
		if w.Key == "" {
			w.Key = cfg.Workers.APIKey
		}
		n[s.Role]++
		c.Workers = append(c.Workers, w)
	}
	for _, l := range cfg.listeners() {
		flag := l.portFlag
		if _, is := socketPath(l.host); is {
			flag = l.hostFlag
		}
		c.Listeners = append(c.Listeners, doctor.Listener{Flag: flag, Host: l.host, Port: l.port})
	}
	if o.in.holdsKeys() {
		c.Secrets = append(c.Secrets, doctor.Secret{Path: o.in.file, Holds: "the keys in it"})
	}
	for path, holds := range map[string]string{cfg.TLSKey: "the certificate's key", cfg.ClientKey: "the key of the certificate for workers"} {
		if path != "" {
			c.Secrets = append(c.Secrets, doctor.Secret{Path: path, Holds: holds, Grave: true})
		}
	}
	return c
}

// holdsKeys reports whether there are keys in the file of --config.
func (in *intake) holdsKeys() bool {
	text, err := os.ReadFile(in.file)
	if err != nil {
		return false
	}
	names := []string{"api-key"} // of a worker
	for _, s := range in.settings {
		if s.secret {
			names = append(names, regexp.QuoteMeta(s.name))
		}
	}
	return regexp.MustCompile(`(?m)^[\s-]*"?(` + strings.Join(names, "|") + `)"?\s*:`).Match(text)
}

// ofRouter finds what a router that runs has against its workers.
func ofRouter(ctx context.Context, client *adminClient) []doctor.Finding {
	list, _, err := client.workers(ctx)
	if err != nil {
		return nil // none runs, or not for us; that is no fault
	}
	found := []doctor.Finding{}
	note := func(status doctor.Status, where, do, what string) {
		found = append(found, doctor.Finding{Check: doctor.Running, Status: status, Where: where, What: what, Do: do})
	}
	for _, w := range list.Workers {
		why := because(whyOf(w))
		switch {
		case w.IsHealthy && why == "":
		case w.IsHealthy:
			note(doctor.Warning, w.ID+" "+w.URL, "docs/resilience.md says what each cause means", "it is left out for a time"+why)
		case w.Status == "draining" || w.Status == "drained":
			note(doctor.Warning, w.ID+" "+w.URL, "pdrouter undrain "+w.ID+", when it is to get requests again", "it is "+w.Status)
		default:
			note(doctor.Warning, w.ID+" "+w.URL, "see what is said of its engine above", "it is "+w.Status+why)
		}
	}
	if len(found) == 0 {
		note(doctor.OK, client.where, "", fmt.Sprintf("a router runs, and gives requests to all its workers: %d prefill, %d decode", list.ReadyOf(workers.Prefill.String()), list.ReadyOf(workers.Decode.String())))
	}
	return found
}

// pidAt returns the process that listens at a unix socket; 0 if that cannot be
// known.
func pidAt(ctx context.Context, path string) int {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return 0
	}
	defer conn.Close()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) { // without it there is no PID, which is fine
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
