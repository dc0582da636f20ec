package transfer

import (
	"fmt"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	chunk := func(choice string) string { return `{"object":"chat.completion.chunk","choices":[` + choice + `]}` }
	for name, c := range map[string]struct {
		e    Endpoint
		data string
		want string
	}{
		"a comment":                           {Chat, ": keep-alive\n\n", "comment"},
		"a blank line":                        {Chat, "\r\n", "comment"},
		"no data":                             {Chat, "event: ping\nid: 7\n\n", "comment"},
		"empty data":                          {Chat, "data:\n\n", "comment"},
		"the end":                             {Chat, "data: [DONE]\n\n", "done"},
		"the end without a space":             {Completions, "data:[DONE]\r\n\r\n", "done"},
		"the end alone":                       {Generate, "[DONE]", "done"},
		"the end inside a text":               {Chat, chunk(`{"delta":{"content":"[DONE]"}}`), "content"},
		"the end among others":                {Chat, "data: [DONE] \ndata: x\n\n", "content"},
		"a role":                              {Chat, chunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`), "quiet"},
		"a role and the prompt's ids":         {Chat, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":[1,2]}`, "quiet"},
		"an empty delta":                      {Chat, chunk(`{"index":0,"delta":{},"finish_reason":null}`), "quiet"},
		"a null delta":                        {Chat, chunk(`{"delta":null}`), "quiet"},
		"usage only":                          {Chat, `{"choices":[],"usage":{"prompt_tokens":7}}`, "quiet"},
		"usage and no choices at all":         {Completions, `{"usage":{"prompt_tokens":7}}`, "quiet"},
		"text":                                {Completions, `{"choices":[{"index":0,"text":"a"}]}`, "content"},
		"no text":                             {Completions, `{"choices":[{"index":0,"text":"","logprobs":null,"stop_reason":null}]}`, "quiet"},
		"content":                             {Chat, chunk(`{"delta":{"content":"a"}}`), "content"},
		"whitespace is content":               {Chat, chunk(`{"delta":{"content":" "}}`), "content"},
		"reasoning":                           {Chat, chunk(`{"delta":{"reasoning":"a"}}`), "content"},
		"reasoning by its other name":         {Chat, chunk(`{"delta":{"content":null,"reasoning_content":"a"}}`), "content"},
		"a tool call":                         {Chat, chunk(`{"delta":{"tool_calls":[{"index":0}]}}`), "content"},
		"no tool call":                        {Chat, chunk(`{"delta":{"tool_calls":[ ],"content":""}}`), "quiet"},
		"logprobs":                            {Chat, chunk(`{"delta":{},"logprobs":{"content":[]}}`), "content"},
		"token ids":                           {Completions, `{"choices":[{"text":"","token_ids":[5]}]}`, "content"},
		"a delta of a kind that we never saw": {Chat, chunk(`{"delta":{"audio":{"data":"x"}}}`), "content"},
		"a choice of a kind we never saw":     {Chat, chunk(`{"delta":{},"video":1}`), "content"},
		"choices that are no objects":         {Chat, chunk(`5`), "content"},
		"a shape that we never saw":           {Chat, `{"type":"response.created"}`, "content"},
		"garbage":                             {Chat, "data: {\"choices\":[\n\n", "content"},
		"no JSON":                             {Chat, "data: hello\n\n", "content"},
		"two values":                          {Chat, `{"error":1} {}`, "content"},
		"a finish":                            {Chat, chunk(`{"delta":{},"finish_reason":"stop"}`), "finish"},
		"a finish with content":               {Completions, `{"choices":[{"text":"a","finish_reason":"length"}]}`, "finish"},
		"an abort":                            {Chat, chunk(`{"delta":{},"finish_reason":"abort"}`), "finish(aborted)"},
		"an escaped abort":                    {Chat, chunk(`{"delta":{},"finish_reason":"ab\u006frt"}`), "finish(aborted)"},
		"a finish of error":                   {Completions, `{"choices":[{"text":"","finish_reason":"error"}]}`, "finish(aborted)"},
		"an error":                            {Chat, `{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}`, "failure(400)"},
		"an error behind its keys":            {Chat, `{"id":"x","choices":[],"err\u006fr":"m"}`, "failure(500)"},
		"an error over several lines":         {Chat, "event: error\ndata: {\"error\":\ndata: {\"code\":503}}\n\n", "failure(503)"},
		"a flat error":                        {Chat, `{"object":"error","message":"m","type":"NotFoundError","code":404}`, "failure(404)"},
		"no error":                            {Chat, `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, "content"},
		"a text about an error":               {Chat, chunk(`{"delta":{"content":"{\"error\":{\"code\":500}}"}}`), "content"},
		"an error inside a choice":            {Chat, chunk(`{"delta":{"content":""},"error":{"code":1}}`), "content"},
		"a tool that is called error":         {Chat, chunk(`{"delta":{"tool_calls":[{"function":{"name":"error"}}]}}`), "content"},
		"generated text":                      {Generate, `{"text":"a","meta_info":{"finish_reason":null}}`, "content"},
		"generated ids":                       {Generate, `{"text":"","output_ids":[1],"meta_info":{}}`, "content"},
		"nothing generated":                   {Generate, `{"text":"","output_ids":[],"meta_info":{"finish_reason":null}}`, "quiet"},
		"generate's finish":                   {Generate, `{"text":"a","meta_info":{"finish_reason":{"type":"stop","matched":2}}}`, "finish"},
		"generate's abort":                    {Generate, `{"text":"a","meta_info":{"finish_reason":{"type":"abort","message":"Aborted","status_code":null}}}`, "finish(aborted)"},
		"generate's failure":                  {Generate, `{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"m","status_code":503}}}`, "failure(503)"},
		"generate's stop that has a status":   {Generate, `{"text":"","meta_info":{"finish_reason":{"type":"stop","status_code":500}}}`, "finish"},
		"generate's failure of no status":     {Generate, `{"text":"","meta_info":{"finish_reason":{"status_code":200,"type":"abort"}}}`, "failure(500)"},
		"generate's error":                    {Generate, `{"error":{"message":"m","code":"400"}}`, "failure(400)"},
		"an abort inside generated text":      {Generate, `{"text":"{\"type\":\"abort\",\"status_code\":500}","meta_info":{"finish_reason":null}}`, "content"},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(c.data)
			if got := describeEvent(Classify(c.e, data)); got != c.want {
				t.Errorf("Classify(%s) = %s, want %s", data, got, c.want)
			}
			if strings.HasPrefix(c.data, "{") {
				framed := []byte("id: 1\r\ndata: " + c.data + "\r\n\r\n")
				if got := describeEvent(Classify(c.e, framed)); got != c.want {
					t.Errorf("Classify(%s) = %s, want %s", framed, got, c.want)
				}
			}
		})
	}
}

// TestStatusOfAnErrorInsideA200 is what the client gets instead of the 200.
func TestStatusOfAnErrorInsideA200(t *testing.T) {
	for in, want := range map[string]int{
		`{"code":400}`:                                        400,
		`{"code":"429"}`:                                      429,
		`{"code":503,"type":"BadRequestError"}`:               503,
		`{"code":200,"type":"x"}`:                             500,
		`{"code":"model_not_found","type":"not_found_error"}`: 404,
		`{"type":"BadRequestError"}`:                          400,
		`{"type":"Bad Request"}`:                              400,
		`{"type":"BAD_REQUEST"}`:                              400,
		`{"type":"BadRequest"}`:                               400,
		`{"type":"invalid_request_error"}`:                    400,
		`{"type":"NotFoundError"}`:                            404,
		`{"type":"rate_limit_error"}`:                         429,
		`{"type":"overloaded_error"}`:                         503,
		`{"type":"ServiceUnavailableError"}`:                  503,
		`{"type":"NotImplementedError"}`:                      501,
		`{"type":"400"}`:                                      400,
		`{"type":"INTERNAL_SERVER_ERROR","code":null}`:        500,
		`{"type":"InternalServerError"}`:                      500,
		`{"message":"m"}`:                                     500,
		`{}`:                                                  500,
		`"Unauthorized"`:                                      500,
	} {
		ev := Classify(Chat, fmt.Appendf(nil, `{"error":%s}`, in))
		if ev.Err == nil || ev.Err.Status != want {
			t.Errorf("status of {\"error\":%s} = %+v, want %d", in, ev.Err, want)
		}
	}
}
