// Every tool call is judged by `copilot-bridge hook`, a process for one call; every result passes it too.
//
// Whatever goes wrong here is thrown: OpenClaw blocks a call whose trusted policy throws, and withholds a
// result whose middleware throws. It has no time-out of its own for a policy, so ours ends the process.

import { spawn } from "node:child_process";
import { realpathSync } from "node:fs";
import { isAbsolute, parse } from "node:path";

export const ID = "copilot-bridge";
export const DESCRIPTION = "Every tool call asks copilot-bridge first, and every result passes it";

/** After so many milliseconds an answer is none. */
const TIMEOUT_MS = 5_000;
/** No session of Copilot is waited for any longer, in milliseconds. */
const TASK_TIMEOUT_MS = 30 * 60_000;
/** More is not read of an answer, in bytes. */
const ANSWER_BYTES = 16 << 20;
/** Of what a program says on stderr, so much goes to OpenClaw's log, in characters. */
const NOISE = 2_000;
/** More calls than these are not remembered between their start and their result. */
const CALLS = 4_096;

/** The plugin's `register`. */
export function register(api) {
  const bridge = new Bridge(api);
  api.registerTrustedToolPolicy({
    id: "gate",
    description: DESCRIPTION,
    evaluate: (event, context) => bridge.judge(event, context),
  });
  api.registerAgentToolResultMiddleware((event, context) => bridge.clean(event, context), {
    runtimes: ["openclaw", "codex"],
  });
  // Nothing is promised that the program cannot do.
  if (api.pluginConfig?.sessions === true) {
    for (const tool of tools(bridge)) api.registerTool(tool);
  }
}

/** The settings, or an error that blocks every call. */
export function settings(config) {
  const { binary, policies, state, timeoutMs = TIMEOUT_MS } = config ?? {};
  for (const [name, path] of Object.entries({ binary, policies, state })) {
    if (typeof path !== "string" || !isAbsolute(path)) {
      throw new Error(`\`${name}\` is no absolute path: run \`copilot-bridge register openclaw\``);
    }
  }
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > 600_000) {
    throw new Error("`timeoutMs` is no number of milliseconds up to 600000");
  }
  return { binary, policies, state, timeoutMs };
}

/** What all gates of a process know: OpenClaw loads a plugin more than once, its policy apart from the rest. */
const shared = (globalThis[Symbol.for(ID)] ??= {
  /** Where calls were judged, until their results come. */
  judgedIn: new Map(),
  /** Where sessions turned out to work. */
  worksIn: new Map(),
  /** Whether results are handed over: not where OpenClaw only ever discovers what plugins there are. */
  resultsPass: false,
});

/** The gate. */
export class Bridge {
  constructor(api) {
    this.api = api;
    shared.resultsPass ||= api.registrationMode === "full";
  }

  /** What a trusted tool policy decides: nothing, a question, or a block. */
  async judge(event, context = {}) {
    try {
      const cwd = this.#workspace(context);
      const answer = await this.#ask("pre-tool-use", context, {
        toolCallId: event.toolCallId ?? context.toolCallId,
        toolName: event.toolName,
        toolKind: event.toolKind ?? context.toolKind,
        toolArgs: event.params,
        execHost: event.toolName === "exec" ? this.#execHost(context) : undefined,
        resultsPass: shared.resultsPass ? undefined : false,
        cwd,
      });
      const decision = decided(answer);
      if (decision?.block !== true) this.#remember(event.toolCallId ?? context.toolCallId, cwd);
      return decision;
    } catch (error) {
      throw this.#failed(`${event?.toolName}: blocked`, error);
    }
  }

  /** A result as the model may see it. */
  async clean(event, context = {}) {
    try {
      const { result } = event;
      if (!Array.isArray(result?.content)) throw new Error("the result has no content");
      const judgedIn = shared.judgedIn.get(event.toolCallId);
      shared.judgedIn.delete(event.toolCallId);
      const cwd = event.cwd ?? judgedIn ?? this.#workspace(context);
      if (event.cwd !== undefined && judgedIn !== undefined && real(event.cwd) !== real(judgedIn)) {
        // The next call of this session is judged where it runs.
        if (context.sessionKey) shared.worksIn.set(context.sessionKey, event.cwd);
        throw new Error(`the call was judged in \`${judgedIn}\`, but ran in \`${event.cwd}\``);
      }
      const ask = async (text) =>
        replaced(
          await this.#ask("post-tool-use", context, {
            toolCallId: event.toolCallId,
            toolName: event.toolName,
            toolArgs: event.args ?? {},
            toolResult: text,
            cwd,
          }),
        );

      const texts = [];
      const others = [];
      for (const block of result.content) {
        if (block?.type === "text" && typeof block.text === "string") texts.push(block.text);
        // There is no text in it that could be looked at.
        else if (block?.type === "image") others.push(block);
        else throw new Error(`a block of the type \`${block?.type}\` cannot be looked at`);
      }
      const text = texts.join("\n");
      const answer = await ask(text);
      if (answer.block) {
        const content = [{ type: "text", text: answer.block }];
        return { result: { ...result, content, details: { status: "error", withheld: true } } };
      }
      const details = await this.#details(result.details, answer.text ?? text, { ask, event, cwd });
      if (answer.text === undefined && details === result.details) return undefined;
      const content =
        answer.text === undefined
          ? result.content
          : [{ type: "text", text: answer.text }, ...others];
      return { result: { ...result, content, details } };
    } catch (error) {
      throw this.#failed(`${event?.toolName}: its result is withheld`, error);
    }
  }

  /** Runs a task in a session of Copilot. */
  async run(verb, request, signal) {
    const { binary, policies, state } = settings(this.api.pluginConfig);
    const { code, stdout, stderr } = await start(binary, {
      args: ["agent", ...verb, "--policies", policies, "--state", state],
      input: JSON.stringify(request),
      timeoutMs: request.timeout ?? TASK_TIMEOUT_MS,
      signal,
    });
    if (code !== 0) throw new Error(stderr.trim() || `copilot-bridge ended with ${code}`);
    return { content: [{ type: "text", text: stdout }] };
  }

  /** What the model does not see, but transcripts and channels may: only what is known to be clean. */
  async #details(details, text, { ask, event, cwd }) {
    if (details === undefined || details === null) return details;
    const args = JSON.stringify(event.args ?? {});
    const known = (found) =>
      found === cwd || isState(found) || text.includes(found) || args.includes(JSON.stringify(found));
    if (everyText(details, known)) return details;
    const answer = await ask(JSON.stringify(details));
    if (!answer.block && answer.text === undefined) return details;
    if (!answer.block) {
      const cleaned = object(answer.text);
      if (cleaned) return cleaned;
    }
    return bare(details);
  }

  /** Asks the program about one event. */
  async #ask(name, context, event) {
    const { binary, policies, state, timeoutMs } = settings(this.api.pluginConfig);
    return start(binary, {
      args: ["hook", name, "--dialect", "openclaw", "--policies", policies, "--state", state],
      input: JSON.stringify({
        sessionId: context.sessionId ?? context.sessionKey,
        agentId: context.agentId,
        ...event,
      }),
      timeoutMs,
      signal: context.abortSignal,
      env: { ...process.env, COPILOT_BRIDGE_DEPTH: String(depth(context.sessionKey)) },
    });
  }

  /** Where the session works: no event says so. */
  #workspace({ agentId, sessionKey }) {
    const found = shared.worksIn.get(sessionKey) ?? this.#configured(agentId, sessionKey);
    // Without one the hook denies; a relative one would mean something else to it.
    if (found !== undefined && !isAbsolute(found)) throw new Error(`\`${found}\` is no absolute path`);
    return found;
  }

  #configured(agentId, sessionKey) {
    if (agentId === undefined) return undefined;
    const { agent, config } = this.api.runtime;
    const all = config.current();
    const session = sessionKey && agent.session.getSessionEntry({ agentId, sessionKey });
    return (
      some(session?.spawnedCwd) ??
      some(entry(all, agentId)?.cwd) ??
      some(all.agents?.defaults?.cwd) ??
      some(session?.spawnedWorkspaceDir) ??
      agent.resolveAgentWorkspaceDir(all, agentId)
    );
  }

  /** Where commands run that do not say so. */
  #execHost({ agentId }) {
    const all = this.api.runtime.config.current();
    return some(entry(all, agentId)?.tools?.exec?.host) ?? some(all.tools?.exec?.host);
  }

  #remember(call, cwd) {
    if (call === undefined) return;
    if (shared.judgedIn.size >= CALLS) shared.judgedIn.delete(shared.judgedIn.keys().next().value);
    shared.judgedIn.set(call, cwd);
  }

  #failed(what, error) {
    const why = error instanceof Error ? error.message : String(error);
    this.api.logger?.error?.(`${ID}: ${what}: ${why}`);
    return new Error(`${what}: ${why}`, { cause: error });
  }
}

/** What an answer before a tool decides. Anything but the three forms is an error. */
export function decided({ code, stdout }) {
  const answer = object(stdout);
  if (answer && code === 0 && holds(answer, {})) return undefined;
  if (answer && code === 2 && holds(answer, { block: isTrue, blockReason: isText })) return answer;
  const question = { title: isText, description: isText, severity: isSeverity, allowedDecisions: isOnce };
  const asks = (value) => isObject(value) && holds(value, question);
  if (answer && code === 0 && holds(answer, { requireApproval: asks })) return answer;
  throw new Error(`copilot-bridge gave no answer (exit code ${code})`);
}

/** What an answer about a result says: nothing, another text, or why there is none. */
export function replaced({ code, stdout }) {
  const answer = object(stdout);
  if (answer && code === 0 && holds(answer, {})) return {};
  if (answer && code === 0 && holds(answer, { result: isString })) return { text: answer.result };
  if (answer && code === 2 && holds(answer, { block: isTrue, blockReason: isText })) {
    return { block: answer.blockReason };
  }
  throw new Error(`copilot-bridge gave no answer (exit code ${code})`);
}

/** Runs a program to its end, or kills it. */
export function start(program, { args, input, timeoutMs, signal, env = process.env }) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new Error("the call was cancelled"));
    const child = spawn(program, args, {
      cwd: parse(program).root,
      env,
      stdio: ["pipe", "pipe", "pipe"],
      windowsHide: true,
    });
    const chunks = [];
    let bytes = 0;
    let stderr = "";
    const end = (error) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancelled);
      if (error) {
        child.kill("SIGKILL");
        // A grandchild may hold them open.
        child.stdout?.destroy();
        child.stderr?.destroy();
        reject(error);
      }
    };
    const cancelled = () => end(new Error("the call was cancelled"));
    const timer = setTimeout(
      () => end(new Error(`copilot-bridge gave no answer within ${timeoutMs} ms`)),
      timeoutMs,
    );
    signal?.addEventListener("abort", cancelled, { once: true });
    child.on("error", (error) => end(new Error(`copilot-bridge cannot be run: ${error.code ?? error.message}`)));
    child.stdout.on("data", (chunk) => {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES) end(new Error(`copilot-bridge said more than ${ANSWER_BYTES} bytes`));
      else chunks.push(chunk);
    });
    child.stderr.on("data", (chunk) => {
      if (stderr.length < NOISE) stderr += chunk.toString().slice(0, NOISE);
    });
    // A program that answers before it has read everything is right to.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.on("close", (code, killed) => {
      end();
      if (killed) return reject(new Error(`copilot-bridge was killed (${killed})`));
      try {
        const stdout = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
        resolve({ code, stdout, stderr });
      } catch {
        reject(new Error("copilot-bridge said something that is no UTF-8"));
      }
    });
  });
}

/** The tools that run Copilot (R-000-13 to R-000-16). */
export function tools(bridge) {
  const text = (description) => ({ type: "string", description });
  const timeout = { type: "integer", minimum: 1, description: "Milliseconds after which it is stopped" };
  const task = text("What to do");
  const coding = {
    type: "object",
    required: ["task"],
    additionalProperties: false,
    properties: {
      task,
      workingDir: text("The folder to work in; the agent's workspace by default"),
      model: text("The model of the session"),
      timeout,
    },
  };
  const tool = (name, label, description, parameters, verb, defaults = {}) => ({
    name,
    label,
    description,
    parameters,
    execute: (_call, given, signal) => bridge.run(verb, { ...defaults, ...given }, signal),
  });
  return [
    tool(
      "copilot_code",
      "Copilot",
      "Delegates a coding task to GitHub Copilot: edits, refactoring, new code. Returns the result with its tool calls.",
      coding,
      ["code"],
    ),
    tool(
      "copilot_code_verbose",
      "Copilot, step by step",
      "Delegates a coding task to GitHub Copilot, and returns a numbered log of each tool that it called.",
      coding,
      ["code", "--verbose"],
    ),
    tool(
      "copilot_orchestrate",
      "Copilot, several at once",
      "Splits a large task into sub-tasks with their dependencies, and lets several Copilot sessions do them.",
      {
        type: "object",
        required: ["task"],
        additionalProperties: false,
        properties: {
          task,
          maxConcurrency: {
            type: "integer",
            minimum: 1,
            default: 3,
            description: "How many sub-tasks at a time",
          },
          timeout,
        },
      },
      ["orchestrate"],
      { maxConcurrency: 3 },
    ),
  ];
}

/** How many agents stand above a session, as its key tells. */
export function depth(sessionKey) {
  const said = Number.parseInt(process.env.COPILOT_BRIDGE_DEPTH ?? "", 10);
  const above = typeof sessionKey === "string" ? sessionKey.split(":subagent:").length - 1 : 0;
  return Math.max(Number.isInteger(said) ? said : 0, above);
}

function entry(config, agentId) {
  const { entries, list } = config.agents ?? {};
  if (isObject(entries)) return entries[agentId];
  return Array.isArray(list) ? list.find((agent) => agent?.id === agentId) : undefined;
}

function real(path) {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** The one JSON object that a text is. */
function object(text) {
  try {
    const value = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whether an object has these fields and no others. */
function holds(value, fields) {
  const names = Object.keys(fields);
  return (
    Object.keys(value).length === names.length &&
    names.every((name) => Object.hasOwn(value, name) && fields[name](value[name]))
  );
}

/** Whether a condition holds for every text in a value, its keys among them. */
function everyText(value, condition) {
  if (typeof value === "string") return condition(value);
  if (Array.isArray(value)) return value.every((item) => everyText(item, condition));
  if (!isObject(value)) return true;
  return Object.entries(value).every(([key, item]) => isName(key) && everyText(item, condition));
}

/** A value without the texts of which nothing is known. */
function bare(value) {
  if (Array.isArray(value)) return value.map(bare).filter((item) => item !== undefined);
  if (isObject(value)) {
    const kept = Object.entries(value).map(([key, item]) => [key, isName(key) ? bare(item) : undefined]);
    return Object.fromEntries(kept.filter(([, item]) => item !== undefined));
  }
  return typeof value === "string" && !isState(value) ? undefined : value;
}

/** The name of a field. */
const isName = (text) => /^[A-Za-z][A-Za-z0-9_-]{0,39}$/.test(text);
/** The name of a state: `completed`, `approval-pending`. */
const isState = (text) => /^([a-z]{1,12}(-[a-z]{1,12})?)?$/.test(text);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isString = (value) => typeof value === "string";
const isText = (value) => isString(value) && value.trim() !== "";
const isTrue = (value) => value === true;
const isSeverity = (value) => ["info", "warning", "critical"].includes(value);
// What is asked is asked about one call.
const isOnce = (value) => Array.isArray(value) && value.join() === "allow-once,deny";
const some = (text) => (isText(text) ? text : undefined);
