package systemd

import (
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Ready tells that the service has started, or has reloaded, and how it is.
func Ready(status string) error { return tell(daemon.SdNotifyReady, statusLine(status)) }

// Status tells how the service is, in one line that systemctl status shows.
func Status(text string) error { return tell(statusLine(text)) }

// Stopping tells that the service ends.
func Stopping(status string) error { return tell(daemon.SdNotifyStopping, statusLine(status)) }

// Reloading tells that the service reads its configuration anew; Ready ends it.
// The time is what Type=notify-reload wants (systemd 253 and later).
func Reloading(status string) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return tell(daemon.SdNotifyReloading, "MONOTONIC_USEC="+strconv.FormatInt(now.Nano()/1000, 10), statusLine(status))
}

// Extend asks for that much more time to start, reload or stop, from now on.
func Extend(by time.Duration) error {
	return tell("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10))
}

// Alive is the sign of life that Watchdog asks for.
func Alive() error { return tell(daemon.SdNotifyWatchdog) }

// MainPID tells that another process is the service from now on.
func MainPID(pid int) error { return tell("MAINPID=" + strconv.Itoa(pid)) }

// Watchdog returns within which time a sign of life is wanted; 0: none is.
func Watchdog() (time.Duration, error) { return daemon.SdWatchdogEnabled(false) }

// statusLine is text as STATUS=, which ends at the first line break.
func statusLine(text string) string {
	return "STATUS=" + strings.Join(strings.Fields(text), " ")
}

func tell(lines ...string) error {
	_, err := daemon.SdNotify(false, strings.Join(lines, "\n"))
	return err
}
