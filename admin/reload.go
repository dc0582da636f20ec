package admin

import (
	"net/http"
	"strings"
)

// A Reloader reads the configuration anew.
type Reloader interface {
	// Reload puts in force what file and command line say now, as far as that
	// can be done without a restart. An error is one line for each fault, and
	// then nothing has changed.
	Reload() (Reload, error)

	// Compare returns what Reload would do with another configuration, which is
	// given as a file would have it.
	Compare(config []byte) (Reload, error)
}

// A Reload is what a configuration changes of the one in force.
type Reload struct {
	Settings []SettingChange `json:"settings"`

	// The workers that come, go and are changed, each as its role and URL.
	Added   []string `json:"workers_added"`
	Removed []string `json:"workers_removed"`
	Changed []string `json:"workers_changed"`
}

// A SettingChange is one setting that is another one. A key is three stars.
type SettingChange struct {
	Setting string `json:"setting"`
	Old     any    `json:"old"`
	New     any    `json:"new"`

	// NeedsRestart tells that the old one stays in force until then.
	NeedsRestart bool `json:"needs_restart"`
}

// NeedRestart returns the names of the settings that need a restart.
func (r Reload) NeedRestart() []string {
	names := []string{}
	for _, c := range r.Settings {
		if c.NeedsRestart {
			names = append(names, c.Setting)
		}
	}
	return names
}

// SetReloader says who reads the configuration anew. It is called before the
// first Handler; without it nobody does.
func (a *API) SetReloader(r Reloader) { a.reloader = r }

func (a *API) reload(*http.Request, []byte) (reply, error) {
	return a.reloaded(func(r Reloader) (Reload, error) { return r.Reload() })
}

func (a *API) compare(_ *http.Request, body []byte) (reply, error) {
	return a.reloaded(func(r Reloader) (Reload, error) { return r.Compare(body) })
}

func (a *API) reloaded(do func(Reloader) (Reload, error)) (reply, error) {
	if a.reloader == nil {
		return reply{}, &Error{Status: http.StatusNotImplemented, Code: "NOT_IMPLEMENTED", Message: "This daemon cannot read its configuration anew."}
	}
	done, err := do(a.reloader)
	if err != nil {
		return reply{}, unreloaded(err)
	}
	return reply{status: http.StatusOK, body: done}, nil
}

// unreloaded returns err, which is a fault of a configuration unless it is an
// *Error, with one line for each.
func unreloaded(err error) error {
	if e, is := err.(*Error); is { //nolint:errorlint // one inside a fault is not meant
		return e
	}
	return &Error{Status: http.StatusUnprocessableEntity, Code: "INVALID_CONFIGURATION", Message: strings.TrimSpace(err.Error())}
}
