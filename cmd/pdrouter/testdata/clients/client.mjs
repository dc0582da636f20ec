// The official npm client, told by lines of JSON on stdin what to ask.
// Orders and answers are those of client.py.
import readline from "node:readline";
import OpenAI from "openai";

const names = { max_retries: "maxRetries", api_key: "apiKey", timeout: "timeout" };

// take adds what an answer, or one chunk of it, says.
function take(got, answer) {
  if (answer.usage) got.usage = answer.usage.completion_tokens;
  for (const choice of answer.choices) {
    const said = choice.delta ?? choice.message;
    const text = said ? said.content : choice.text;
    if (text) got.parts.push(text);
    for (const call of said?.tool_calls ?? []) {
      got.tool = call.function.name ?? got.tool;
      got.arguments += call.function.arguments ?? "";
    }
    got.finish = choice.finish_reason ?? got.finish;
  }
}

async function ask(client, order, got) {
  if (order.endpoint === "models") {
    for await (const m of client.models.list()) got.parts.push(m.id);
    return;
  }
  const controller = new AbortController();
  if (order.cancel) fetch(order.cancel).then(() => controller.abort());
  const place = order.endpoint === "completions" ? client.completions : client.chat.completions;
  const answer = await place.create({ ...order.body, ...order.extra }, { signal: controller.signal });
  if (!order.body.stream) return take(got, answer);
  for await (const chunk of answer) {
    take(got, chunk);
    if (order.leave && got.parts.length === order.leave) controller.abort();
  }
}

async function run(order) {
  const got = { parts: [], usage: null, tool: null, arguments: "", finish: null, error: null };
  const options = { baseURL: order.base, apiKey: "key", timeout: 30_000 };
  for (const [name, value] of Object.entries(order.client ?? {})) {
    options[names[name]] = name === "timeout" ? value * 1000 : value;
  }
  const begin = performance.now();
  try {
    await ask(new OpenAI(options), order, got);
  } catch (e) {
    if (!(e instanceof OpenAI.OpenAIError)) throw e;
    got.error = {
      type: e.constructor.name, api: e instanceof OpenAI.APIError, status: e.status ?? 0,
      code: e.code ?? null, message: e.error?.message ?? null,
    };
  }
  got.seconds = (performance.now() - begin) / 1000;
  return got;
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
process.exit(0); // a fetch that was never answered would keep it
