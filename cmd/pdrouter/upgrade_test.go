package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pdrouter/sim"
)

// TestUpgradeUnderLoad: twice in a row, with streams open that outlast both and
// clients that come all the time, no request fails or waits, and each process ends
// when its requests have.
func TestUpgradeUnderLoad(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			pace := func(c *sim.Config) { c.DecodePerToken, c.MaxRunning = 5*time.Millisecond, 64 }
			prefill, decode := startEngine(t, dialect, sim.Prefill, pace), startEngine(t, dialect, sim.Decode, pace)
			s := startService(t, workerFlags(prefill, decode)...)
			s.ready()
			crowds := s.crowds(6, func(i int) step { return completion(t, i, prompt(i%7, 900), 20) })
			flow(t, crowds, 12)
			var long sync.WaitGroup
			client := newClient(t)
			for i := range 4 {
				long.Go(func() {
					asked := completion(t, 2*i+1, prompt(i, 400), 700)
					a := sendStep(client, s.base, asked)
					if outcome, err := asked.judge(a.reply); outcome != wholeAnswer || err != nil {
						t.Errorf("a stream over two upgrades ended as %s: %v", outcome, err)
					}
				})
			}
			if !eventually(func() bool { return decode.Stats().Running >= 4 }) {
				t.Fatal("streams do not run")
			}
			first := s.last()
			took := s.upgrade()
			flow(t, crowds, 12)
			again := s.upgrade()
			t.Logf("upgrades took %v and %v", took.Round(time.Millisecond), again.Round(time.Millisecond))
			flow(t, crowds, 12)
			if !s.runs(first) {
				t.Error("the first process has ended before its streams")
			}
			wantAllWhole(t, crowds, 2*time.Second)
			long.Wait()
			client.CloseIdleConnections()
			for _, pid := range s.all()[:2] {
				s.wantEnd(pid, 5*time.Second)
			}
			if !eventually(func() bool { return s.m.count("READY=1") == 3 }) {
				t.Errorf("READY=1 was told %d times, want once by each of three processes", s.m.count("READY=1"))
			}
			alive := s.m.count("WATCHDOG=1")
			if !eventually(func() bool { return s.m.count("WATCHDOG=1") > alive+2 }) {
				t.Error("the last process gives no sign of life")
			}
			if n := s.m.count("STOPPING=1"); n != 0 {
				t.Errorf("STOPPING=1 was told %d times though the service goes on", n)
			}
			s.stop()
		})
	}
}

// TestUpgradeFails: whatever is wrong with the new program, the old one goes on
// and the reason is told.
func TestUpgradeFails(t *testing.T) {
	e := startEngine(t, sim.VLLMNixl, sim.Prefill, nil)
	file := filepath.Join(t.TempDir(), "pdrouter.yaml")
	config := fmt.Sprintf("prefill: [%q]\ndecode: [%q]\n", e.URL(), startEngine(t, sim.VLLMNixl, sim.Decode, nil).URL())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startService(t, "--config", file)
	s.ready()
	crowds := s.crowds(2, func(i int) step { return completion(t, i, prompt(i%7, 100), 4) })
	for _, tt := range []struct{ name, script, config, want string }{
		{"it ends at once", "exit 1", config, "ended before it was ready"},
		{"it is not there", "-", config, "no such file"},
		{"it is no program", "", config, ""},
		{"its configuration is invalid", "", "prefill: nonsense\nport: -3\n", "does not start: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			switch tt.script {
			case "-":
				_ = os.Remove(s.program)
			default:
				s.install(tt.script)
			}
			if tt.want == "" {
				_ = os.Remove(s.program)
				if err := os.WriteFile(s.program, []byte{0x7f, 'E', 'L', 'F'}, 0o755); err != nil {
					t.Fatal(err)
				}
				tt.want = "start " + s.program
			}
			if err := os.WriteFile(file, []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			out, status := s.command("upgrade")
			if status != 1 || !strings.Contains(out, tt.want) {
				t.Errorf("upgrade ended with %d: %s; want 1 and %q", status, out, tt.want)
			}
			flow(t, crowds, 5)
		})
	}
	wantAllWhole(t, crowds, 2*time.Second)
	if s.m.count("MAINPID") != 0 || !s.runs(s.last()) {
		t.Error("the old process is not the service any more")
	}
	if out, status := s.command("workers"); status != 0 {
		t.Errorf("the admin socket does not answer: %d %s", status, out)
	}
	s.install("")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.upgrade()
	s.stop()
}

// TestUpgradeNeverReady: two at a time are not tried, and a new process that does
// not get ready is ended when the old one is told to stop, as when its time is over.
func TestUpgradeNeverReady(t *testing.T) {
	prefill, decode := startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)
	s := startService(t, workerFlags(prefill, decode)...)
	s.ready()
	mark := filepath.Join(filepath.Dir(s.program), "pid")
	s.install("echo $$ >" + mark + ".new; mv " + mark + ".new " + mark + "; exec sleep 100")
	first := make(chan string, 1)
	go func() {
		out, status := s.command("upgrade")
		first <- fmt.Sprint(status, " ", out)
	}()
	var text []byte
	if !eventually(func() bool {
		var err error
		text, err = os.ReadFile(mark)
		return err == nil
	}) {
		t.Fatal("the new program is not started")
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	s.follow(pid)
	if out, status := s.command("upgrade"); status != 1 || !strings.Contains(out, "another upgrade is under way") {
		t.Errorf("a second upgrade ended with %d: %s", status, out)
	}
	client := newClient(t)
	complete(t, client, s.base, prompt(1, 500), 4)
	old := s.all()[0]
	_ = syscall.Kill(old, syscall.SIGTERM)
	if out := <-first; !strings.HasPrefix(out, "1 ") || !strings.Contains(out, "told to stop") {
		t.Errorf("the upgrade ended with %s", out)
	}
	if code := <-s.endOf(pid); code != -int(unix.SIGKILL) {
		t.Errorf("the new process ended with %d, want it to be killed", code)
	}
	s.wantEnd(old, 10*time.Second)
}
