// The middleware in JavaScript: `fetch` plays a script, and each test looks at what it was asked.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { setTimeout as passed } from "node:timers/promises";

const require = createRequire(import.meta.url);
const page = require(process.env.PAGE);

/** Lets `fetch` play these steps, the last of them for ever, and keeps what it was asked. */
function scripted(...steps) {
  const asked = [];
  globalThis.fetch = async (request) => {
    const step = steps[Math.min(asked.length, steps.length - 1)];
    asked.push({ method: request.method, url: request.url, key: request.headers.get("idempotency-key"), at: performance.now(), signal: request.signal, body: await request.clone().text() });
    if (step === "lost") throw new TypeError("fetch failed");
    if (step === "silence") return new Promise((_, fail) => request.signal.addEventListener("abort", () => fail(request.signal.reason)));
    if (step === "late") return passed(200).then(() => Object.defineProperty(new Response("here"), "url", { value: request.url }));
    const stalled = new ReadableStream({ start: (body) => request.signal.addEventListener("abort", () => body.error(request.signal.reason)) });
    const answer = step === "half" ? new Response(stalled) : new Response("here", step);
    // A response of a script has no URL, and reqwest wants one.
    return Object.defineProperty(answer, "url", { value: request.url });
  };
  return asked;
}

async function timed(work) {
  const began = performance.now();
  return [await work, performance.now() - began];
}

test("a read is sent again, and waits as long as it was asked to", async () => {
  const asked = scripted({ status: 503, headers: { "retry-after": "1" } }, { status: 200 });
  assert.equal(await page.read(), "200: 2 attempts, AnswerIsFinal, Answered, 0 advice");
  assert.ok(asked[1].at - asked[0].at >= 999);
});

test("a read whose fetch failed is sent again", async () => {
  scripted("lost", { status: 200 });
  assert.equal(await page.read(), "200: 2 attempts, AnswerIsFinal, Answered, 0 advice");
});

test("a write whose fetch failed is sent once, and nobody knows", async () => {
  const asked = scripted("lost", { status: 200 });
  assert.equal(await page.unprotected_write(), "Unknown: 1 attempts, MayHaveHappened, Unknown, 0 advice");
  assert.equal(asked.length, 1);
});

test("no status proves that a write was not processed", async () => {
  const asked = scripted({ status: 425 }, { status: 200 });
  assert.equal(await page.unprotected_write(), "425: 1 attempts, MayHaveHappened, Unknown, 0 advice");
  assert.equal(asked.length, 1);
});

test("a keyed write has the same key and body on every attempt", async () => {
  const asked = scripted("lost", { status: 500 }, { status: 201 });
  assert.equal(await page.keyed_write(), "201: 3 attempts, AnswerIsFinal, Answered, 0 advice");
  assert.deepEqual(asked.map(({ body }) => body), ["1 coffee", "1 coffee", "1 coffee"]);
  assert.ok(asked[0].key?.length >= 16);
  assert.equal(new Set(asked.map(({ key }) => key)).size, 1);
});

test("a key that the server has forgotten is not relied on", async () => {
  const asked = scripted("lost", { status: 201 });
  assert.match(await page.write_under_a_key_from(1, Date.now()), /^201: 2 attempts/);
  assert.equal(asked[0].key, "order-2041");
  const refused = scripted({ status: 201 });
  assert.match(await page.write_under_a_key_from(1000, Date.now()), /^Unknown: .*Misused/);
  assert.equal(refused.length, 0);
});

test("a write whose answer was lost is asked about", async () => {
  const asked = scripted("lost", { status: 200 });
  assert.match(await page.probed_write(), /^200: 1 attempts, AnswerIsFinal, Reconciled/);
  assert.deepEqual(asked.map(({ method, url }) => `${method} ${new URL(url).pathname}`), ["POST /orders", "GET /orders/latest"]);
});

test("a deadline ends a fetch that hangs", async () => {
  for (const read of [page.read_within, page.read_in_a_scope]) {
    const asked = scripted("silence");
    const [told, took] = await timed(read(300));
    assert.match(told, /timed out/);
    assert.ok(asked.every(({ signal }) => signal.aborted));
    assert.ok(took >= 299 && took < 2000, `${took} ms`);
  }
});

test("a deadline ends a body that hangs", async () => {
  scripted("half");
  const [told, took] = await timed(page.body_within(300));
  assert.equal(told, "cut");
  assert.ok(took >= 299 && took < 2000, `${took} ms`);
  scripted({ status: 200 });
  assert.equal(await page.body_within(300), "here");
});

test("a body that belongs to the attempt elsewhere is left to the caller", async () => {
  scripted({ status: 503 }, { status: 200 });
  assert.equal(await page.body_of_the_attempt(), "503 by its head alone, 200 by its head alone: here");
});

test("a wait beyond the deadline is not waited for", async () => {
  const asked = scripted({ status: 429, headers: { "retry-after": new Date(Date.now() + 60_000).toUTCString() } });
  const [told, took] = await timed(page.read());
  assert.match(told, /^429: 1 attempts, DeadlineTooNear/);
  assert.ok(took < 1000 && asked.length === 1);
});

test("a deadline weeks ahead is no timer that fires at once", async () => {
  scripted("late");
  const { setTimeout } = globalThis;
  const timers = [];
  globalThis.setTimeout = (work, time, ...rest) => (timers.push(time), setTimeout(work, time, ...rest));
  try {
    assert.match(await page.read_within(2 ** 32 - 1), /^200/);
  } finally {
    globalThis.setTimeout = setTimeout;
  }
  assert.ok(timers.every((time) => time < 2 ** 31), `${timers}`);
  assert.ok(timers.length < 30, `${timers.length} timers`);
});

test("a wait that a server asked for holds the next read back", async () => {
  const asked = scripted({ status: 429, headers: { "retry-after": "1" } }, { status: 200 });
  assert.match(await page.two_reads_that_share_waits(), /^429: 1 attempts.*; 200: 1 attempts/);
  assert.ok(asked[1].at - asked[0].at >= 999);
});

test("the budget bounds what many reads send", async () => {
  scripted("lost");
  const sent = await page.reads(30);
  assert.ok(sent > 30 && sent < 60, `${sent} sends`);
});

test("chance differs from page to page", () => {
  const fingerprint = page.fingerprint();
  assert.equal(page.fingerprint(), fingerprint);
  delete require.cache[require.resolve(process.env.PAGE)];
  assert.notEqual(require(process.env.PAGE).fingerprint(), fingerprint);
});
