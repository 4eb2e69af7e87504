// The operator's page: asks for /v1/status and shows it. Whatever a stranger may have named is set as text, never as markup.
"use strict";

const EVERY_MS = 1500;
const PATIENCE_MS = 4000;
const LATELY_MS = 60000;
const GATES_SHOWN = 20;
const SERVERS_SHOWN = 12;
const NAMES = { directory: "Lookups", media: "Files" };

let latest = null; // the last status
let skewMs = 0; // the server's clock against ours
let heardAtMs = null; // by our clock
let asking = false;
const history = []; // [time, refusals] of the last minute
const shown = new Map(); // what each part shows, so that one that has not changed is left alone
let countdowns = []; // [element, Unix ms]

const byId = (id) => document.getElementById(id);

// An element with text and elements inside. The only way anything comes onto the page.
function el(name, className, ...inside) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...inside.filter((part) => part !== null).map((part) => (part instanceof Node ? part : String(part))));
  return made;
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  if (s < 172800) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 86400)} days`;
}

function took(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
}

function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
}

const number = (n) => n.toLocaleString("en");
const nowMs = () => Date.now() + skewMs;

function countdown(untilMs) {
  const element = el("span", "count", span(untilMs - nowMs()));
  countdowns.push([element, untilMs]);
  return element;
}

function bar(label, value, most, level) {
  const made = el("div", `bar ${level}`, el("div", ""));
  made.firstChild.style.width = `${most > 0 ? Math.min(100, (100 * value) / most) : 0}%`;
  made.setAttribute("role", "meter");
  made.setAttribute("aria-label", label);
  made.setAttribute("aria-valuemin", "0");
  made.setAttribute("aria-valuemax", String(most));
  made.setAttribute("aria-valuenow", String(value));
  return made;
}

function level(value, most) {
  if (most > 0 && value >= most) return ["bad", "full"];
  return value >= 0.75 * most ? ["watch", "nearly full"] : ["good", value > 0 ? "in use" : "at rest"];
}

function card(title, label, value, most, unit, lines, levelOf = level) {
  const [kind, word] = levelOf(value, most);
  const of = el("small", "", ` of ${unit(most)} ${label}`);
  return el(
    "article", "card",
    el("h3", "", title, el("span", `word ${kind}`, word)),
    el("p", "figure", unit(value), of),
    bar(`${title}: ${label}`, value, most, kind),
    el("ul", "", ...lines.map(([what, figure]) => el("li", "", el("span", "quiet", what), el("span", "", figure)))),
  );
}

function lately(of) {
  const [first] = history;
  const last = history[history.length - 1];
  const since = of(last[1]) - of(first[1]);
  const seconds = Math.round((last[0] - first[0]) / 1000);
  return since > 0 ? `${number(of(last[1]))} (${number(since)} in ${seconds} s)` : number(of(last[1]));
}

function slots(seen) {
  const cards = Object.keys(NAMES).map((name) => {
    const budget = seen.budgets[name];
    const lines = [
      ["one client at most", number(budget.per_client)],
      ["refused: every slot taken", lately((refused) => refused[name].global)],
      ["refused: client had its share", lately((refused) => refused[name].client)],
      ["refused: client over its rate", lately((refused) => refused[name].rate)],
    ];
    if (name === "media") {
      lines.push(["refused: off, or not wanted", lately((refused) => refused.by_switch)]);
      lines.push(["fetches running", number(seen.media.running)]);
      lines.push(["fetches waiting for a turn", number(seen.media.waiting)]);
    }
    return card(`${NAMES[name]}`, "slots", budget.in_flight, budget.cap, number, lines);
  });
  const pool = seen.request_pool;
  if (pool) {
    const lines = [
      ["faults (answered 500)", number(pool.panicked)],
      ["memory", seen.process.resident_bytes === null ? "unknown" : bytes(seen.process.resident_bytes)],
      ["descriptors", descriptors(seen.process)],
      ["calls past their time", number(seen.federation_worker.overruns)],
    ];
    cards.push(card("Request threads", "busy", pool.threads - pool.idle, pool.threads, number, lines));
  }
  const long = seen.long_answers;
  if (long) {
    cards.push(card("Long answers", "connections", long.in_flight, long.cap, number, [
      ["one client at most", number(long.per_client)],
      ["refused: too many at once (503)", lately((refused) => refused.long_answers.refused)],
    ]));
  }
  const store = seen.media.store;
  if (store) {
    const lines = [
      ["files", number(store.files)],
      ["on their way", number(store.unfinished)],
      ["deleted and still read", number(store.pinned)],
      ["deleted: made room", number(store.evicted)],
      ["deleted: too old", number(store.expired)],
      ["deleted: not whole", number(store.torn)],
      ["readers cut: made room", number(store.cut)],
    ];
    // A full store is as it should be: the oldest file makes room.
    const calm = (value) => ["good", value > 0 ? "in use" : "empty"];
    cards.push(card("Media store", "", store.bytes + store.unfinished_bytes + store.pinned_bytes, store.max_bytes, bytes, lines, calm));
  }
  return cards;
}

// The homeserver behind: whether it answers, and how much of what it may be asked is out.
function upstream(seen) {
  const behind = seen.upstream;
  if (behind === null) return [];
  const time = (ms) => new Date(ms).toLocaleTimeString();
  const answered = behind.last_answer_at_ms === null ? "never so far" : time(behind.last_answer_at_ms);
  const words = {
    not_asked: ["watch", "? not asked yet", ""],
    answers: ["good", "✓ answers", `last at ${answered}`],
    silent: ["bad", "✕ silent", `last silent at ${time(behind.last_silence_at_ms)}, last answer: ${answered}`],
  };
  const [kind, word, when] = words[behind.state];
  const kinds = [
    ["Own lists and aliases", (upstream) => upstream.passed_on.small, "requests"],
    ["Own files", (upstream) => upstream.passed_on.files, "requests"],
    ["Token questions", (upstream) => upstream.token_questions, "questions"],
  ];
  const cards = kinds.map(([title, of, label]) => {
    const asked = of(behind);
    return card(title, label, asked.in_flight, asked.cap, number, [
      ["one client at most", number(asked.per_client)],
      ["answered", number(asked.answered)],
      ["refused: too many at once (503)", lately((counts) => of(counts.upstream).refused)],
      ["no answer (502)", lately((counts) => of(counts.upstream).silent)],
    ]);
  });
  const waiters = behind.token_waiters;
  cards.push(card("Equal token questions", "requests that wait", waiters.in_flight, waiters.cap, number, [
    ["one client at most", number(waiters.per_client)],
    ["refused: too many at once (503)", lately((counts) => counts.upstream.token_waiters.refused)],
  ]));
  return [el("p", "hint", `${behind.origin} `, el("span", `word ${kind}`, word), ` ${when}`), el("div", "cards", ...cards)];
}

function descriptors(process) {
  if (process.open_descriptors === null) return "unknown";
  const most = process.max_descriptors === null ? "" : ` of ${number(process.max_descriptors)}`;
  return `${number(process.open_descriptors)}${most}`;
}

function table(heads, rows) {
  const head = el("tr", "", ...heads.map(([title, className]) => {
    const cell = el("th", className, title);
    cell.scope = "col";
    return cell;
  }));
  return el("div", "table", el("table", "", el("thead", "", head), el("tbody", "", ...rows)));
}

function row(title, cells) {
  const head = el("th", "", ...title);
  head.scope = "row";
  return el("tr", "", head, ...cells);
}

const cell = (...inside) => el("td", "", ...inside);
const figure = (...inside) => el("td", "number", ...inside);
const small = (...inside) => el("span", "small", ...inside);
const none = (text) => el("div", "table", el("p", "none", text));

function breaker(gate) {
  const { state, opened_at_ms: openedAt, reopened } = gate.breaker;
  const words = {
    closed: ["good", "✓ closed", null],
    open: ["bad", "✕ open", "nothing goes out"],
    probing: ["watch", "? probing", "one call is out to see"],
  };
  const [kind, word, meaning] = words[state];
  const since = openedAt === null ? null : small("since ", new Date(openedAt).toLocaleTimeString(), failedProbes(reopened));
  return cell(el("span", `word ${kind}`, word), meaning === null ? null : small(meaning), since);
}

function failedProbes(times) {
  return times === 0 ? "" : `, ${times} failed ${times === 1 ? "probe" : "probes"}`;
}

function gateSlots(gate) {
  const pips = el("span", "pips");
  pips.setAttribute("aria-hidden", "true");
  const free = Math.max(0, gate.limit - gate.active - gate.held);
  for (const [kind, count] of [["out", gate.active], ["held", gate.held], ["", free]]) {
    for (let i = 0; i < Math.min(count, 12); i += 1) pips.append(el("span", `pip ${kind}`));
  }
  const holds = gate.held_until_ms.map((until) => countdown(until));
  const until = holds.length === 0 ? null : small("held slots free in ", ...holds.slice(0, 4).flatMap((each, i) => (i ? [", ", each] : [each])));
  return cell(pips.firstChild === null ? null : pips, el("span", "", `${gate.active} out, ${gate.held} held, limit ${gate.limit}`), until);
}

function nextCall(gate) {
  if (!gate.background_callers) return cell("–");
  const { at_ms: at, decided_by: by } = gate.next_admission;
  const soon = at === null || at <= nowMs();
  if (by === "slot") return at === null ? cell("when a call ends") : cell("at once", small("a slot is free"));
  if (by === "probe") return at === null ? cell("when the probe ends") : cell("at once", small("the next call is the probe"));
  const why = by === "hold" ? "a held slot is free then" : "the open period ends, and one probe goes out";
  return soon ? cell("now", small(why)) : cell("in ", countdown(at), small(why));
}

function waiting(gate) {
  const kinds = Object.entries(gate.waiting_by_kind).filter(([, count]) => count > 0);
  const list = kinds.map(([kind, count]) => `${count} ${kind.replace("_", "-")}`).join(", ");
  if (!gate.background_callers) return cell("nothing waits here", small("the gate only listens to how requests of accounts end"));
  const oldest = gate.oldest_wait_ms === null ? null : small("the first for ", span(gate.oldest_wait_ms));
  return cell(gate.waiting === 0 ? "nobody" : list, oldest);
}

function gates(seen) {
  const order = { open: 0, probing: 1, closed: 2 };
  const worst = [...seen.homeservers].sort(
    (one, other) => order[one.breaker.state] - order[other.breaker.state] || other.waiting - one.waiting || other.held - one.held,
  );
  if (worst.length === 0) return [none("No load gate: nothing here calls a homeserver in the background.")];
  const heads = [["Homeserver"], ["Breaker"], ["Slots"], ["Waiting"], ["Next call"]];
  const rows = worst.slice(0, GATES_SHOWN).map((gate) => row([gate.key], [breaker(gate), gateSlots(gate), waiting(gate), nextCall(gate)]));
  return [table(heads, rows), ...more(worst.length - GATES_SHOWN)];
}

function more(count) {
  return count > 0 ? [el("p", "quiet", `${number(count)} more are in the figures as JSON.`)] : [];
}

function destinations(seen) {
  const all = Object.keys(NAMES).flatMap((name) => seen.destinations[name].map((server) => ({ ...server, name })));
  const bad = (server) => server.timed_out + server.failed;
  const ended = (server) => bad(server) + server.answered;
  // Of one whose first call is still out nothing good is known.
  const share = (server) => (ended(server) === 0 ? 1 : bad(server) / ended(server));
  all.sort((one, other) => other.in_flight - one.in_flight || share(other) - share(one) || other.mean_ms - one.mean_ms);
  if (all.length === 0) return [none("No other server was asked yet.")];
  const heads = [["Server"], ["Asked for"], ["Out now", "number"], ["Answered", "number"], ["Timed out", "number"], ["Failed", "number"],
    ["Mean", "number"], ["Slowest", "number"], ["Latest"]];
  // Whoever holds a slot is shown, and there are no more of those than slots.
  const most = Math.max(SERVERS_SHOWN, all.filter((server) => server.in_flight > 0).length);
  const time = (server, ms) => figure(ended(server) === 0 ? "–" : took(ms));
  const rows = all.slice(0, most).map((server) => row([server.server], [
    cell(NAMES[server.name].toLowerCase()), figure(number(server.in_flight)), figure(number(server.answered)),
    figure(number(server.timed_out)), figure(number(server.failed)), time(server, server.mean_ms), time(server, server.slowest_ms),
    lastCall(server.last),
  ]));
  return [table(heads, rows), ...more(all.length - most)];
}

function lastCall(last) {
  if (last === null) return cell("still out");
  const words = { answered: ["good", "✓ answered"], timed_out: ["bad", "✕ timed out"], failed: ["bad", "✕ failed"] };
  const [kind, word] = words[last.outcome];
  const at = ` ${new Date(last.ended_at_ms).toLocaleTimeString()}`;
  return cell(el("span", `word ${kind}`, word), at, last.reason === null ? null : small(`${last.phase}: ${last.reason}${last.status === null ? "" : ` ${last.status}`}`));
}

function calls(seen) {
  const heads = [["Calls"], ["Answered", "number"], ["Timed out", "number"], ["Failed", "number"], ["Half took at most", "number"],
    ["95 % took at most", "number"], ["Longest", "number"]];
  const rows = Object.keys(NAMES).map((name) => {
    const { answered, timed_out: timedOut, failed } = seen.calls[name];
    const times = seen.call_times[name];
    return row([NAMES[name]], [figure(number(answered)), figure(number(timedOut)), figure(number(failed)),
      figure(atMost(times, 0.5)), figure(atMost(times, 0.95)),
      figure(times.calls === 0 ? "–" : took(times.longest_ms))]);
  });
  return [table(heads, rows)];
}

// The step that so many of the calls fit into, or the longest of them, if that is shorter.
function atMost(times, part) {
  if (times.calls === 0) return "–";
  const step = times.at_most.find(({ calls: fit }) => fit >= part * times.calls);
  return took(step ? Math.min(step.ms, times.longest_ms) : times.longest_ms);
}

function part(id, figures, make) {
  const text = JSON.stringify(figures);
  if (shown.get(id) === text) return;
  shown.set(id, text);
  byId(id).replaceChildren(...make(latest));
}

function remember(seen) {
  const refused = {
    directory: seen.budgets.directory.refused, media: seen.budgets.media.refused, by_switch: seen.media.refused_by_switch,
    upstream: seen.upstream, long_answers: seen.long_answers,
  };
  const last = history[history.length - 1];
  if (last && seen.seen_at_ms - seen.uptime_ms > last[0]) history.length = 0; // it was started anew
  history.push([seen.seen_at_ms, refused]);
  while (history[0][0] < seen.seen_at_ms - LATELY_MS) history.shift();
}

function show(seen) {
  latest = seen;
  heardAtMs = Date.now();
  skewMs = seen.seen_at_ms - heardAtMs;
  remember(seen);
  document.title = `portcullis ${seen.server_name}`;
  byId("server").textContent = seen.server_name;
  byId("about").textContent = `version ${seen.version}, up ${span(seen.uptime_ms)}`;
  part("slots", [history, seen.budgets, seen.media, seen.request_pool, seen.process, seen.federation_worker], slots);
  part("upstream", [history, seen.upstream], upstream);
  byId("upstream-part").hidden = seen.upstream === null;
  part("gates", seen.homeservers, gates);
  part("destinations", seen.destinations, destinations);
  part("calls", [seen.calls, seen.call_times], calls);
  byId("figures").hidden = false;
  byId("figures").className = "";
  trouble(seen.draining ? "The server is stopping: what is in flight is answered, nothing new is taken." : null);
  live("live, every 1.5 s", "");
}

function live(text, className) {
  if (byId("live").textContent !== text) byId("live").textContent = text;
  byId("live").className = className;
}

function trouble(text) {
  if (byId("trouble").textContent !== (text ?? "")) byId("trouble").textContent = text ?? "";
  byId("trouble").hidden = text === null;
}

function lost(why) {
  const since = heardAtMs === null ? "" : ` The figures below are from ${new Date(heardAtMs).toLocaleTimeString()}.`;
  trouble(`The server does not answer (${why}).${since}`);
  byId("figures").className = "stale";
  live("no answer", "lost");
}

async function ask() {
  if (asking || document.hidden) return;
  asking = true;
  try {
    const answer = await fetch("v1/status", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.ok) show(await answer.json());
    else lost(`status ${answer.status}`);
  } catch (error) {
    lost(error.name === "TimeoutError" ? "it is silent" : "no connection");
  } finally {
    asking = false;
  }
}

function tick() {
  countdowns = countdowns.filter(([element]) => element.isConnected);
  for (const [element, until] of countdowns) element.textContent = span(until - nowMs());
}

ask();
setInterval(ask, EVERY_MS);
setInterval(tick, 500);
document.addEventListener("visibilitychange", ask);
