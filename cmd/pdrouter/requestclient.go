package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"pdrouter/admin"
)

// requestPath returns the path of the requests with an ID. Its first byte is
// spelt so that no ID is taken for another route.
func requestPath(id string) string {
	if id == "" {
		return "/requests/"
	}
	return fmt.Sprintf("/requests/%%%02X%s", id[0], url.PathEscape(id[1:]))
}

// request returns the request with an ID and a number, as it is now.
func (c *adminClient) request(ctx context.Context, id string, number uint64) (admin.RequestInfo, error) {
	var list admin.Requests
	err := c.do(ctx, http.MethodGet, requestPath(id)+"?number="+strconv.FormatUint(number, 10), &list)
	switch {
	case err != nil:
		return admin.RequestInfo{}, err
	case len(list.Requests) == 0:
		return admin.RequestInfo{}, errors.New("the answer has no request")
	}
	return list.Requests[0], nil
}

// next returns the first request after the one with that number, for a model if
// it is not empty.
func (c *adminClient) next(ctx context.Context, after uint64, model string) (admin.NextRequest, error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}}
	if model != "" {
		q.Set("model", model)
	}
	var n admin.NextRequest
	err := c.do(ctx, http.MethodGet, "/requests/next?"+q.Encode(), &n)
	return n, err
}

// last returns the number of the request that came last.
func (c *adminClient) last(ctx context.Context) (uint64, error) {
	var n admin.NextRequest
	err := c.do(ctx, http.MethodGet, "/requests/next", &n)
	return n.Number, err
}

// status returns how the daemon is, and the answer as it came.
func (c *adminClient) status(ctx context.Context) (s admin.Status, raw json.RawMessage, err error) {
	if err := c.do(ctx, http.MethodGet, "/status", &raw); err != nil {
		return s, nil, err
	}
	err = json.Unmarshal(raw, &s)
	return s, raw, err
}
