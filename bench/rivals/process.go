package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// A process is a router, with whatever it starts: all are of one group.
type process struct {
	cmd   *exec.Cmd
	log   string        // path
	ended chan struct{} // closed when it has
}

func startProcess(dir, exe string, args []string) (*process, error) {
	log, err := os.CreateTemp(dir, filepath.Base(exe)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{
		cmd: exec.Command(exe, args...), //nolint:noctx // stop ends it, with its group
		log: log.Name(), ended: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	go func() {
		_ = p.cmd.Wait() // it says that it was killed
		close(p.ended)
	}()
	return p, nil
}

// stop kills the group and waits until the process has ended.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.ended
}
