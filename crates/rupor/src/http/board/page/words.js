// What the page says and how: texts by their id, numbers, and time as people tell it.

const WORDS = JSON.parse(document.getElementById("words").textContent);
const LANGUAGES = ["en", "ru"];
const LANGUAGE_NAMES = { en: "English", ru: "Русский" };
let language = chosenLanguage();

function chosenLanguage() {
  const asked = new URLSearchParams(location.search).get("lang") || remembered("language") || navigator.language || "en";
  return LANGUAGES.find((known) => asked.toLowerCase().startsWith(known)) || "en";
}

// A browser that keeps nothing for us is fine.
function remembered(name) { try { return localStorage.getItem(`rupor.${name}`); } catch { return null; } }
function remember(name, value) { try { localStorage.setItem(`rupor.${name}`, value); } catch { /* not kept */ } }

/** `{n}` is a value, `{n:one|many}` a word that goes with the number. */
function say(id, values = {}) {
  const text = WORDS[language][id];
  if (text === undefined) return id.slice(id.indexOf(".") + 1).replaceAll("_", " ");
  return text.replace(/\{(\w+)(?::([^}]*))?\}/g, (_, name, forms) => {
    const value = values[name];
    if (forms !== undefined) return form(forms.split("|"), value);
    return typeof value === "number" ? count(value) : String(value ?? "");
  });
}

function form(forms, n) {
  if (language !== "ru") return forms[n === 1 ? 0 : 1];
  const [ten, hundred] = [n % 10, n % 100];
  if (ten === 1 && hundred !== 11) return forms[0];
  return ten >= 2 && ten <= 4 && (hundred < 12 || hundred > 14) ? forms[1] : forms[2];
}

const knows = (id) => WORDS[language][id] !== undefined;
const count = (n) => new Intl.NumberFormat(language).format(n);

/** `3 min. ago`, `in 2 h.`: the largest unit that is not zero. */
function relative(at, now = clock()) {
  const seconds = Math.round((at - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 45) return seconds <= 0 ? say("time.now") : say("time.soon");
  const format = new Intl.RelativeTimeFormat(language, { style: "short", numeric: "always" });
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (size >= length || unit === "minute") return format.format(Math.trunc(seconds / length) || Math.sign(seconds), unit);
  }
  return "";
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return say("span.s", { n: s });
  if (s < 5400) return say("span.min", { n: Math.round(s / 60) });
  if (s < 129600) return say("span.h", { n: Math.round(s / 3600) });
  return say("span.d", { n: Math.round(s / 86400) });
}

function moment(at, seconds = false) {
  const date = new Date(at);
  const time = { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined, hour12: false };
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(language, today ? time : { day: "numeric", month: "short", ...time });
}

/** Moments inside a sentence of the node, told as the clock on the wall does. */
const localised = (text) => String(text ?? "").replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, date, time) => moment(Date.parse(`${date}T${time}Z`)));

/** The clock of the node, as far as it is known: what it told last, and what has passed since. */
let clockAhead = 0;
const clock = () => Date.now() + clockAhead;
