package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pdrouter/sim"
)

// An engine is a pdrouter sim on ports that it keeps, whichever process it is.
type engine struct {
	number    int
	role      string
	url       string
	bootstrap string   // port
	command   []string // binary and arguments
	log       string
	client    *http.Client
	*process

	lives int       // processes so far
	gone  sim.Stats // of what the dead ones had counted, as far as they could be asked
}

// deafness is how long SGLang's engines take to notice by themselves that a
// client has left: longer than the real ones' 3 s, and than departLimit.
const deafness = 6 * time.Second

// newEngine returns an engine of a dialect, not yet started.
func newEngine(number int, dialect, exe, dir string) (*engine, error) {
	e := &engine{number: number, role: sim.Prefill, client: newControlClient()}
	if number >= perRole {
		e.role = sim.Decode
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	e.url, e.bootstrap = "http://127.0.0.1:"+ports[0], ports[1]
	e.log = filepath.Join(dir, fmt.Sprintf("%s-engine%d.log", dialect, number))
	_ = os.Remove(e.log) // of a run before, if there was one; its processes append to it
	e.command = []string{
		exe, "sim", "--control", "--dialect", dialect, "--role", e.role, "--port", ports[0], "--bootstrap-port", ports[1],
		// Little patience, so that rest comes soon; tokens take some time, so
		// that there is a middle of an answer; little room, so that some wait.
		"--lease", "3s", "--patience", "3s", "--prefill-us-per-token", "5", "--decode-us-per-token", "2000",
		"--kv-tokens", "65536", "--max-running", "24",
	}
	if dialect == sim.SGLang { // deaf, so that it shows whether it was told
		e.command = append(e.command, "--disconnect-delay", deafness.String())
	}
	return e, nil
}

// newControlClient returns a client whose connections do not outlive a request,
// so that an engine that was killed meanwhile is no trouble.
func newControlClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
}

// freePorts returns ports of loopback that nobody listens at. They are below
// those from which the system takes the ports of outgoing connections: an engine
// that is down for a while must find its own free when it comes back.
func freePorts(n int) ([]string, error) {
	var ports []string
	for tries := 0; len(ports) < n; tries++ {
		if tries == 1000 {
			return nil, errors.New("no free ports between 20000 and 32000")
		}
		port := fmt.Sprint(20000 + random(uint64(time.Now().UnixNano()), 0).IntN(12000))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port) //nolint:noctx // it returns at once
		if err != nil {
			continue
		}
		defer ln.Close() // all at the end, so that they differ
		ports = append(ports, port)
	}
	return ports, nil
}

// up starts the engine, and returns when it serves.
func (e *engine) up(ctx context.Context) error {
	p, err := start(e.log, e.command[0], e.command[1:]...)
	if err != nil {
		return err
	}
	e.process = p
	e.lives++
	return eventually(ctx, 10*time.Second, func() error {
		_, err := e.state(ctx)
		return err
	})
}

// down ends the engine with a signal, after asking what it had counted. Whether
// it was asked in vain does not matter: it may be stopped or have died.
func (e *engine) down(ctx context.Context, s syscall.Signal) error {
	if state, err := e.state(ctx); err == nil {
		e.gone.ReusedRooms += state.Stats.ReusedRooms
		e.gone.Recomputes += state.Stats.Recomputes
		e.gone.ExpiredHolds += state.Stats.ExpiredHolds
	}
	return e.end(s, 5*time.Second)
}

// died reports an engine that has ended though nobody ended it.
func (e *engine) died() error {
	if e.running() {
		return nil
	}
	return fmt.Errorf("engine %d (%s) has died by itself: %w", e.number, e.role, e.err)
}

// tell tells the engine to fail.
func (e *engine) tell(ctx context.Context, f sim.Fault) error {
	return e.control(ctx, http.MethodPost, sim.FaultsPath, f, nil)
}

// mend tells the engine to work again.
func (e *engine) mend(ctx context.Context) error {
	return e.control(ctx, http.MethodDelete, sim.FaultsPath, nil, nil)
}

// state asks what the engine is doing.
func (e *engine) state(ctx context.Context) (sim.State, error) {
	var s sim.State
	err := e.control(ctx, http.MethodGet, sim.StatePath, nil, &s)
	return s, err
}

func (e *engine) control(ctx context.Context, method, path string, in, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader([]byte(jsonOf(in))))
	if err != nil {
		return err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("engine %d: %w", e.number, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("engine %d: %s %s: status %d", e.number, method, path, resp.StatusCode)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(body, out)
}

// violations returns what all processes of the engine have said of misuse.
func (e *engine) violations() (all []string) {
	text, err := os.ReadFile(e.log)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(text)) {
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "violation: "); ok {
			all = append(all, kind)
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			all = append(all, "the engine itself: "+line)
		}
	}
	return all
}

// left says what there is that must not be at rest.
func (e *engine) left(ctx context.Context) error {
	s, err := e.state(ctx)
	if err != nil {
		return err
	}
	st := s.Stats
	if st.Requests+st.Running+st.Waiting+st.Transferring+st.UsedBlocks+st.HeldBlocks == 0 {
		return nil
	}
	return fmt.Errorf("engine %d (%s) has %d requests (%d running, %d waiting, %d transferring) and %d blocks in use, %d of them held",
		e.number, e.role, st.Requests, st.Running, st.Waiting, st.Transferring, st.UsedBlocks, st.HeldBlocks)
}
