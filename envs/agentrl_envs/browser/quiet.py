"""Waiting until a page has done what an action made it do; no fixed pause.

A page is quiet when no request is under way, no short timer that it has set is pending, and for
`QUIET_MS` its document has not changed and no timer has run, seen by `LOOKS` looks in a row: by the
clock alone, a renderer that gets no CPU is quiet too. Each wait has a bound, so that a page
that polls or animates for ever costs its bound and not the episode.
"""

from __future__ import annotations

from typing import Final

QUIET_MS: Final = 30
"""Milliseconds without a change of the document or a timer that runs. A request that a timer sends
is reported a moment later."""

LOOKS: Final = 3
"""Looks at the document, `LOOK_MS` apart, between which the page's event loop runs."""

LOOK_MS: Final = 8

MOVING_MS: Final = 2_000
"""After so many milliseconds a document that still changes is taken as it is."""

BACKGROUND_S: Final = 3.0
"""A request that takes longer (long polling, a stream) is no longer waited for."""

POLLING_S: Final = 10.0
"""Requests that begin later than this after the document are those of a page that polls, and are
not waited for."""

WATCH_TIMERS: Final = """
(() => {
  if (window.__pendingTimers) return;
  const pending = window.__pendingTimers = new Set();
  window.__timerRan = -Infinity;
  const {setTimeout: set, clearTimeout: clear} = window;
  let depth = 0;  // a timer that sets itself again is polling: waited for three times
  window.setTimeout = (call, delay, ...values) => {
    const level = depth + 1;
    const id = set(() => {
      pending.delete(id);
      const before = depth;
      depth = level;
      try {
        if (typeof call === "function") call(...values);
        else (0, eval)(String(call));
      } finally {
        depth = before;
        if (level <= 3) window.__timerRan = performance.now();
      }
    }, delay);
    if (level <= 3 && !(delay > 1000)) pending.add(id);
    return id;
  };
  window.clearTimeout = id => { pending.delete(id); clear(id); };
})()
"""
"""Runs before a page's own scripts. (`eval` is what the browser does with a timer that the page
gives as text; nothing of the agent's gets there.)"""

UNTIL_QUIET: Final = """
([quietMs, movingMs, looks, lookMs]) => new Promise(resolve => {
  const began = performance.now();
  let changed = 0, before = null, alike = 0;
  const observer = new MutationObserver(() => { changed = performance.now(); });
  observer.observe(document, {subtree: true, childList: true, attributes: true,
                              characterData: true});
  const finish = quiet => { observer.disconnect(); clearInterval(timer); resolve(quiet); };
  const look = () => {
    const now = performance.now();
    const busy = window.__pendingTimers && window.__pendingTimers.size > 0;
    const active = Math.max(changed, window.__timerRan ?? changed);
    alike = busy ? 0 : active === before ? alike + 1 : 1;
    before = active;
    if (now - began > movingMs) finish(false);
    else if (alike >= looks && now - active >= quietMs) finish(true);
  };
  const timer = setInterval(look, lookMs);
  requestAnimationFrame(() => requestAnimationFrame(look));
})
"""
"""Resolves when the document is quiet: true, or false when `movingMs` have passed."""
