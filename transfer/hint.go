package transfer

// hintKey returns the key that names who asks or which conversation goes on.
//
// Sources: SGLang 0.5.23 managers/io_struct.py (routing_key, session_params,
// session_id, conversation_id); vLLM 0.32 entrypoints/openai/*/protocol.py
// (session_id, user, prompt_cache_key); OpenAI's API reference (conversation,
// prompt_cache_key, user). OpenAI's previous_response_id is another one in each
// turn, its safety_identifier is about abuse, and what is in metadata is known
// to the application alone.
func hintKey(name []byte) key {
	switch string(name) {
	case "routing_key":
		return keyRoutingKey
	case "session_params":
		return keySessionParams
	case "session_id":
		return keySessionID
	case "conversation":
		return keyConversation
	case "conversation_id":
		return keyConversationID
	case "prompt_cache_key":
		return keyPromptCacheKey
	case "user":
		return keyUser
	}
	return keyOther
}

// Hint returns the value by which the client says which requests belong
// together, as it is spelt between its quotes; nil: it says nothing. Of several
// it is the narrowest. Session tells whether it names one session or
// conversation: prompt_cache_key and user do not, they may be the same in all
// requests of an application.
func (r *Request) Hint() (value []byte, session bool) {
	for _, k := range [...]key{
		keyRoutingKey, keySessionParams, keySessionID, keyConversation, keyConversationID,
		keyPromptCacheKey, keyUser,
	} {
		if v := r.name(k); len(v) > 0 {
			return v, k < keyPromptCacheKey
		}
	}
	return nil, false
}

// name returns a string between its quotes, a number, or the id of an object.
func (r *Request) name(k key) []byte {
	v := r.value(k)
	switch {
	case v == nil:
		return nil
	case v[0] == '{':
		return r.idOf(int(r.also[k-keyHandoff-1].start))
	}
	return bare(v)
}

// idOf returns the member id of the object that begins at start.
func (r *Request) idOf(start int) (id []byte) {
	m := (&scanner{b: r.body}).object(start, 1)
	var buf [maxKeyLen]byte
	for m.more() {
		if string(m.name(r.body, &buf)) == "id" {
			id = bare(m.value())
		}
	}
	return id
}

// bare returns a string without its quotes, or a number; of anything else,
// nothing.
func bare(value []byte) []byte {
	switch c := value[0]; {
	case c == '"':
		return value[1 : len(value)-1]
	case isNumber(c):
		return value
	}
	return nil
}
