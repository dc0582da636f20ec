// The official npm client, as its users write it: usage: client.mjs BASE_URL MODEL PROMPT.
// Prints one JSON object with what it was answered.
import OpenAI from "openai";

const [base, model, prompt] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base, apiKey: "key", maxRetries: 0, timeout: 30_000 });
const messages = [{ role: "user", content: prompt }];

const whole = await client.chat.completions.create({ model, messages, max_tokens: 12 });
const parts = [];
let usage = null;
for await (const chunk of await client.chat.completions.create({
  model, messages, max_tokens: 12, stream: true, stream_options: { include_usage: true },
})) {
  const content = chunk.choices[0]?.delta?.content;
  if (content) parts.push(content);
  if (chunk.usage) usage = chunk.usage.completion_tokens;
}
const completion = await client.completions.create({ model, prompt, max_tokens: 12 });
const textParts = [];
for await (const chunk of await client.completions.create({ model, prompt, max_tokens: 12, stream: true })) {
  textParts.push(chunk.choices[0].text);
}

async function code(status, options) {
  try {
    await client.chat.completions.create({ messages, ...options });
  } catch (e) {
    if (e.status === status) return e.code;
  }
  return null;
}

const models = [];
for await (const m of client.models.list()) models.push(m.id);

console.log(JSON.stringify({
  models,
  chat: whole.choices[0].message.content,
  chat_stream: parts,
  usage,
  completion: completion.choices[0].text,
  completion_stream: textParts,
  unknown_model: await code(404, { model: "nobody" }),
  several: await code(400, { model, n: 2 }),
}));
