import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Bridge, ID, decided, depth, register, replaced, settings, start, tools } from "./bridge.js";

const folder = mkdtempSync(join(tmpdir(), "copilot-bridge-openclaw-"));
after(() => rmSync(folder, { recursive: true }));

let count = 0;
/** A program that runs this code; `event` is what it was given on stdin. */
function program(code) {
  const path = join(folder, `program-${(count += 1)}.mjs`);
  const head = `#!${process.execPath}\nimport { readFileSync, writeFileSync } from "node:fs";\n`;
  writeFileSync(path, `${head}const event = JSON.parse(readFileSync(0, "utf8"));\n${code}`, { mode: 0o700 });
  return path;
}

/** A program that gives this answer, and writes down what it was asked. */
function answering(answer, code = 0) {
  const asked = join(folder, `asked-${count + 1}.json`);
  const text = typeof answer === "string" ? answer : JSON.stringify(answer);
  const path = program(
    `writeFileSync(${JSON.stringify(asked)}, JSON.stringify({ event, args: process.argv.slice(2), depth: process.env.COPILOT_BRIDGE_DEPTH }));
     process.stdout.write(${JSON.stringify(text)}); process.exitCode = ${code};`,
  );
  return { path, asked: () => JSON.parse(readFileSync(asked, "utf8")) };
}

function api(binary, more = {}, session) {
  const said = [];
  return {
    said,
    pluginConfig: { binary, policies: "/p", state: "/s", ...more },
    logger: { error: (text) => said.push(text) },
    runtime: {
      config: { current: () => ({ agents: {} }) },
      agent: {
        resolveAgentWorkspaceDir: (_, agent) => `/workspaces/${agent}`,
        session: { getSessionEntry: () => session },
      },
    },
  };
}

const CALL = { toolName: "exec", params: { command: "ls" }, toolCallId: "c1" };
const CONTEXT = { agentId: "main", sessionId: "s1", sessionKey: "agent:main:main" };
const BLOCK = { block: true, blockReason: "no" };
const QUESTION = {
  requireApproval: { title: "t", description: "d", severity: "warning", allowedDecisions: ["allow-once", "deny"] },
};

test("a call that may go on is nothing to OpenClaw", async () => {
  const { path, asked } = answering({});
  assert.equal(await new Bridge(api(path)).judge(CALL, CONTEXT), undefined);
  const { event, args, depth: above } = asked();
  assert.deepEqual(event, {
    sessionId: "s1",
    agentId: "main",
    toolCallId: "c1",
    toolName: "exec",
    toolArgs: { command: "ls" },
    resultsPass: false,
    cwd: "/workspaces/main",
  });
  assert.deepEqual(args, "hook pre-tool-use --dialect openclaw --policies /p --state /s".split(" "));
  assert.equal(above, "0");
});

test("a denial and a question are handed on", async () => {
  assert.deepEqual(await new Bridge(api(answering(BLOCK, 2).path)).judge(CALL, CONTEXT), BLOCK);
  assert.deepEqual(await new Bridge(api(answering(QUESTION).path)).judge(CALL, CONTEXT), QUESTION);
});

test("what is no answer throws, and that blocks", async () => {
  const wrong = [
    ["", 0],
    ["{}", 2],
    ["{}", 1],
    ["{}{}", 0],
    ["{}\n{}", 0],
    ["[]", 0],
    ["null", 0],
    ['"allow"', 0],
    ["\ufeff{}", 0],
    [{ allow: true }, 0],
    [{ block: false }, 0],
    [{ ...BLOCK }, 0],
    [{ ...BLOCK, params: {} }, 2],
    [{ block: true }, 2],
    [{ block: true, blockReason: " " }, 2],
    [{ block: "true", blockReason: "no" }, 2],
    [QUESTION, 2],
    [{ requireApproval: { ...QUESTION.requireApproval, allowedDecisions: ["allow-always"] } }, 0],
    [{ requireApproval: { ...QUESTION.requireApproval, timeoutBehavior: "allow" } }, 0],
    [{ requireApproval: true }, 0],
    [{ ...QUESTION, params: { command: "rm" } }, 0],
    [{ params: { command: "rm" } }, 0],
  ];
  for (const [answer, code] of wrong) {
    const stdout = typeof answer === "string" ? answer : JSON.stringify(answer);
    assert.throws(() => decided({ code, stdout }), /gave no answer/, stdout);
  }
  const { path } = answering("nonsense");
  const here = api(path);
  await assert.rejects(new Bridge(here).judge(CALL, CONTEXT), /exec: blocked: copilot-bridge gave no answer/);
  assert.match(here.said[0], /^copilot-bridge: exec: blocked/);
});

test("a program that is not there, dies, hangs or floods throws", async () => {
  const judge = (binary, more) => new Bridge(api(binary, more)).judge(CALL, CONTEXT);
  await assert.rejects(judge(join(folder, "gone")), /cannot be run: ENOENT/);
  await assert.rejects(judge(program("process.kill(process.pid, 'SIGKILL');")), /was killed \(SIGKILL\)/);
  await assert.rejects(judge(program("process.stdout.write('{}'); process.exit(3);")), /exit code 3/);
  const flood = program("const x = 'x'.repeat(1 << 20); const go = () => process.stdout.write(x, go); go();");
  await assert.rejects(judge(flood, { timeoutMs: 20_000 }), /said more than/);
  const started = Date.now();
  const hang = program("setInterval(() => {}, 1000); process.stdout.write('{}');");
  await assert.rejects(judge(hang, { timeoutMs: 400 }), /gave no answer within 400 ms/);
  assert.ok(Date.now() - started < 5_000);
});

test("a call that is cancelled ends the program", async () => {
  const stop = new AbortController();
  const hang = program("setInterval(() => {}, 1000);");
  setTimeout(() => stop.abort(), 100);
  const context = { ...CONTEXT, abortSignal: stop.signal };
  await assert.rejects(new Bridge(api(hang)).judge(CALL, context), /was cancelled/);
  await assert.rejects(new Bridge(api(hang)).judge(CALL, context), /was cancelled/);
});

test("settings that cannot be used block every call", async () => {
  for (const more of [{ binary: "copilot-bridge" }, { policies: undefined }, { state: 3 }, { timeoutMs: 0 }, { timeoutMs: "5" }]) {
    await assert.rejects(new Bridge(api(answering({}).path, more)).judge(CALL, CONTEXT), /blocked: `/);
  }
  assert.throws(() => settings(undefined), /`binary` is no absolute path/);
});

test("the folder of a call is where its session works", async () => {
  const cwd = async (session, config = {}, context = CONTEXT) => {
    const { path, asked } = answering({});
    const here = api(path, {}, session);
    here.runtime.config.current = () => config;
    await new Bridge(here).judge(CALL, context);
    return asked().event.cwd;
  };
  assert.equal(await cwd({ spawnedCwd: "/spawned" }, { agents: { defaults: { cwd: "/d" } } }), "/spawned");
  assert.equal(await cwd(undefined, { agents: { defaults: { cwd: "/d" }, entries: { main: { cwd: "/e" } } } }), "/e");
  assert.equal(await cwd(undefined, { agents: { defaults: { cwd: "/d" }, list: [{ id: "main" }] } }), "/d");
  assert.equal(await cwd({ spawnedWorkspaceDir: "/w" }), "/w");
  assert.equal(await cwd(undefined, {}, { sessionId: "s" }), undefined);
  await assert.rejects(cwd({ spawnedCwd: "up" }), /`up` is no absolute path/);
});

test("the host of a command and the depth of a session are said", async () => {
  const { path, asked } = answering({});
  const here = api(path);
  here.runtime.config.current = () => ({ tools: { exec: { host: "node" } } });
  const context = { ...CONTEXT, sessionKey: "agent:main:subagent:a:subagent:b" };
  await new Bridge(here).judge({ ...CALL, toolKind: "code_mode_exec" }, context);
  assert.equal(asked().event.execHost, "node");
  assert.equal(asked().event.toolKind, "code_mode_exec");
  assert.equal(asked().depth, "2");
  // One that is loaded whole is enough: it is its middleware that gets the results.
  assert.equal(asked().event.resultsPass, false);
  new Bridge({ ...here, registrationMode: "full" });
  await new Bridge({ ...here, registrationMode: "discovery" }).judge(CALL, context);
  assert.equal("resultsPass" in asked().event, false);
  process.env.COPILOT_BRIDGE_DEPTH = "5";
  assert.equal(depth("agent:main:main"), 5);
  delete process.env.COPILOT_BRIDGE_DEPTH;
  assert.equal(depth(undefined), 0);
});

function result(text, details) {
  const content = [{ type: "text", text }];
  return { toolName: "exec", toolCallId: "c1", args: { command: "ls" }, result: { content, details } };
}

test("a clean result stays as it is", async () => {
  const { path, asked } = answering({});
  const bridge = new Bridge(api(path));
  const details = { status: "completed", exitCode: 0, aggregated: "a b", cwd: "/workspaces/main", tail: "ls" };
  assert.equal(await bridge.clean(result("a b\n", details), CONTEXT), undefined);
  const { event, args } = asked();
  assert.equal(event.toolResult, "a b\n");
  assert.deepEqual(event.toolArgs, { command: "ls" });
  assert.equal(args[1], "post-tool-use");
});

test("a result that was changed takes the place of the other, also in its details", async () => {
  const path = program(
    `const text = event.toolResult.replaceAll("hunter2", "[REDACTED]");
     process.stdout.write(JSON.stringify(text === event.toolResult ? {} : { result: text }));`,
  );
  const bridge = new Bridge(api(path));
  const image = { type: "image", mimeType: "image/png", data: "AA==" };
  const given = result("x hunter2", { status: "failed", aggregated: "x hunter2 and more", n: 1 });
  given.result.content.push({ type: "text", text: "y" }, image);
  assert.deepEqual(await bridge.clean(given, CONTEXT), {
    result: {
      content: [{ type: "text", text: "x [REDACTED]\ny" }, image],
      details: { status: "failed", aggregated: "x [REDACTED] and more", n: 1 },
    },
  });
  // What the model does not see is looked at too.
  assert.deepEqual(await bridge.clean(result("x", { note: "hunter2 2" }), CONTEXT), {
    result: { content: [{ type: "text", text: "x" }], details: { note: "[REDACTED] 2" } },
  });
});

test("details that are cut or held back keep what is no text", async () => {
  const path = program(
    `const json = event.toolResult.startsWith("{");
     process.stdout.write(JSON.stringify(json ? { result: '{"note": "cut' } : {}));`,
  );
  const details = { status: "ok", n: 1, note: "a 1", "odd key": 1, all: [{ deep: "b 2", on: true }, "c 3"] };
  const cleaned = await new Bridge(api(path)).clean(result("x", details), CONTEXT);
  assert.deepEqual(cleaned.result.details, { status: "ok", n: 1, all: [{ on: true }] });
});

test("a result that must not go on is withheld", async () => {
  const bridge = new Bridge(api(answering({ block: true, blockReason: "withheld" }, 2).path));
  const given = result("secret", { aggregated: "secret" });
  given.result.content.push({ type: "image", mimeType: "image/png", data: "AA==" });
  assert.deepEqual(await bridge.clean(given, CONTEXT), {
    result: { content: [{ type: "text", text: "withheld" }], details: { status: "error", withheld: true } },
  });
});

test("a result that nobody could look at throws, and that withholds it", async () => {
  for (const [answer, code] of [["", 0], ["{}", 2], [{ result: 1 }, 0], [{ result: "x", more: 1 }, 0], [BLOCK, 0], [QUESTION, 0]]) {
    const stdout = typeof answer === "string" ? answer : JSON.stringify(answer);
    assert.throws(() => replaced({ code, stdout }), /gave no answer/, stdout);
  }
  const clean = (given, binary = answering({}).path) => new Bridge(api(binary)).clean(given, CONTEXT);
  await assert.rejects(clean(result("x"), join(folder, "gone")), /exec: its result is withheld: .*ENOENT/);
  await assert.rejects(clean({ ...result("x"), result: {} }), /has no content/);
  const odd = result("x");
  odd.result.content.push({ type: "resource", text: "x" });
  await assert.rejects(clean(odd), /a block of the type `resource`/);
  await assert.rejects(clean({ ...odd, result: { content: [null] } }), /a block of the type/);
});

test("a call that ran elsewhere than it was judged is found out, once", async () => {
  const { path, asked } = answering({});
  const context = { ...CONTEXT, sessionKey: "agent:main:elsewhere" };
  await new Bridge(api(path)).judge(CALL, context);
  // OpenClaw may load the plugin once for its policy and once for its middleware.
  const bridge = new Bridge(api(path));
  const elsewhere = { ...result("x"), cwd: "/elsewhere" };
  await assert.rejects(bridge.clean(elsewhere, context), /judged in `\/workspaces\/main`, but ran in `\/elsewhere`/);
  await bridge.judge(CALL, context);
  assert.equal(asked().event.cwd, "/elsewhere");
  assert.equal(await bridge.clean(elsewhere, context), undefined);
});

test("a program without sessions has no tools to offer", () => {
  const registered = (config) => {
    const found = { tools: [], policies: [], runtimes: [] };
    register({
      ...api("/b"),
      pluginConfig: config,
      registerTrustedToolPolicy: (policy) => found.policies.push(policy),
      registerAgentToolResultMiddleware: (_, { runtimes }) => found.runtimes.push(...runtimes),
      registerTool: (tool) => found.tools.push(tool.name),
    });
    return found;
  };
  for (const config of [undefined, {}, { sessions: false }, { sessions: "true" }]) {
    const found = registered(config);
    assert.deepEqual(found.tools, []);
    // The gate stands whatever the settings are.
    assert.deepEqual(found.policies.map(({ id, matcher }) => [id, matcher]), [["gate", undefined]]);
  }
  const manifest = JSON.parse(readFileSync(new URL("openclaw.plugin.json", import.meta.url), "utf8"));
  const found = registered({ sessions: true });
  assert.deepEqual(found.tools, manifest.contracts.tools);
  assert.deepEqual(found.runtimes, manifest.contracts.agentToolResultMiddleware);
  assert.deepEqual(found.policies.map(({ id }) => id), manifest.contracts.trustedToolPolicies);
  assert.equal(manifest.id, ID);
});

test("a tool hands its task to the program", async () => {
  const { path, asked } = answering("## Result\n");
  const [code, verbose, orchestrate] = tools(new Bridge(api(path)));
  assert.deepEqual(await code.execute("c", { task: "t", model: "m" }), {
    content: [{ type: "text", text: "## Result\n" }],
  });
  assert.deepEqual(asked().event, { task: "t", model: "m" });
  assert.deepEqual(asked().args, "agent code --policies /p --state /s".split(" "));
  await verbose.execute("c", { task: "t" });
  assert.deepEqual(asked().args.slice(0, 3), ["agent", "code", "--verbose"]);
  await orchestrate.execute("c", { task: "t" });
  assert.deepEqual(asked().event, { maxConcurrency: 3, task: "t" });
  const failing = tools(new Bridge(api(program("console.error('no session'); process.exitCode = 1;"))))[0];
  await assert.rejects(failing.execute("c", { task: "t" }), /no session/);
  for (const { parameters } of [code, verbose, orchestrate]) assert.deepEqual(parameters.required, ["task"]);
});

test("a program may answer before it has read everything", async () => {
  const path = join(folder, "hasty.mjs");
  writeFileSync(path, `#!${process.execPath}\nprocess.stdout.write("{}");\n`, { mode: 0o700 });
  const { code, stdout } = await start(path, { args: [], input: "x".repeat(1 << 20), timeoutMs: 5_000 });
  assert.deepEqual([code, stdout], [0, "{}"]);
});
