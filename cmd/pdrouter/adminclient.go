package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

// adminTime bounds one request to a daemon.
const adminTime = 10 * time.Second

// An adminPlace says where a daemon is asked.
type adminPlace struct{ socket, url, key string }

// bind adds the flags that say it to cmd.
func (p *adminPlace) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.socket, "admin-socket", anySocket, "unix `path` at which the daemon is asked; auto: "+strings.Join(adminSocketPlaces(), ", or "))
	f.StringVar(&p.url, "admin-url", "", "`URL` at which it is asked instead, as in http://127.0.0.1:30002")
	f.StringVar(&p.key, "admin-api-key", "", "`key` that goes with --admin-url")
	cmd.MarkFlagsMutuallyExclusive("admin-socket", "admin-url")
}

// An adminClient asks one daemon.
type adminClient struct {
	http  *http.Client
	base  string
	where string // for people
	key   string
}

// client returns a client of the daemon. It has to be closed.
func (p *adminPlace) client() (*adminClient, error) {
	transport := &http.Transport{}
	c := &adminClient{http: &http.Client{Transport: transport, Timeout: adminTime}, base: "http://admin", where: p.url, key: p.key}
	if p.url != "" {
		u, err := url.Parse(p.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, asConfigFault(errors.New("--admin-url: not http://HOST:PORT or https://HOST:PORT"))
		}
		c.base = strings.TrimSuffix(p.url, "/")
		return c, nil
	}
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	c.where, c.key = path, ""
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return c, nil
}

// path returns the socket at which the daemon is asked: of the usual ones, the
// first that this user may use, else the first that is there.
func (p *adminPlace) path() (string, error) {
	if p.socket != anySocket {
		return p.socket, nil
	}
	places := adminSocketPlaces()
	there := slices.DeleteFunc(slices.Clone(places), func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	if len(there) == 0 {
		return "", noDaemon(strings.Join(places, " or "), "there is no such socket")
	}
	const write = 2 // W_OK, which connecting needs
	i := slices.IndexFunc(there, func(path string) bool { return syscall.Access(path, write) == nil })
	return there[max(i, 0)], nil
}

func noDaemon(where, why string) error {
	return fmt.Errorf("no daemon answers at %s: %s; is it running? It logs at its start where admin is open; say it here by --admin-socket or --admin-url", where, why)
}

func (c *adminClient) close() { c.http.CloseIdleConnections() }

// do sends a request, and decodes the answer into v unless v is nil.
func (c *adminClient) do(ctx context.Context, method, path string, v any) error {
	return c.send(ctx, method, path, nil, v)
}

// send is do with a body.
func (c *adminClient) send(ctx context.Context, method, path string, body []byte, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return c.explain(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		e := &admin.Error{Status: resp.StatusCode}
		if json.Unmarshal(answer, e) != nil || e.Message == "" {
			return fmt.Errorf("%s answers status %d; is it a daemon's admin API?", c.where, resp.StatusCode)
		}
		return e
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("%s: not the answer of a daemon's admin API: %w", c.where, err)
	}
	return nil
}

// explain says what a person can do about a request that nobody answered.
func (c *adminClient) explain(ctx context.Context, err error) error {
	timeout, late := errors.AsType[net.Error](err)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may be used by its owner and group only; try as another user, such as with sudo", c.where)
	case errors.Is(err, fs.ErrNotExist):
		return noDaemon(c.where, "there is no such socket")
	case late && timeout.Timeout():
		return noDaemon(c.where, "no answer in time")
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return noDaemon(c.where, err.Error())
}

// workers returns all workers, and the answer as it came.
func (c *adminClient) workers(ctx context.Context) (list admin.List, raw json.RawMessage, err error) {
	if err := c.do(ctx, http.MethodGet, "/workers", &raw); err != nil {
		return list, nil, err
	}
	err = json.Unmarshal(raw, &list)
	return list, raw, err
}
