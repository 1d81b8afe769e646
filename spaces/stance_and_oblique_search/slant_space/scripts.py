"""The few lines that run in the visitor's browser. They read attributes and never make HTML."""

from __future__ import annotations

READ_ADDRESS = "() => [window.location.search]"

# A result's button asks why; the address of the page follows what is shown, also around the frame of a Space.
ON_RESULTS = """
element.addEventListener('click', (event) => {
  const why = event.target.closest('.sl-why');
  if (why) trigger('click', {id: why.dataset.id, stance: why.dataset.stance});
  const copy = event.target.closest('[data-copy]');
  if (copy) {
    const link = new URL(copy.dataset.address, window.location.href).href;
    const written = navigator.clipboard?.writeText(link) ?? Promise.reject();
    written.then(() => { copy.textContent = 'Copied'; }, () => { copy.textContent = 'It is in the address bar'; });
  }
});
watch('value', () => {
  const shared = element.querySelector('[data-address]');
  if (!shared) return;
  window.history.replaceState(null, '', shared.dataset.address);
  if (window.parent !== window) {
    window.parent.postMessage({queryString: shared.dataset.address.slice(1)}, 'https://huggingface.co');
  }
});
"""

# A panel that is drawn anew takes the focus with it: back to the word that was pressed, or to the panel itself.
ON_WHY = """
let pressed = null;
element.addEventListener('click', (event) => {
  const word = event.target.closest('[data-word]');
  if (!word) return;
  pressed = word.dataset.word;
  trigger('click', {word: Number(pressed)});
});
watch('value', () => {
  const panel = element.querySelector('.sl-why-panel');
  const word = panel && [...panel.querySelectorAll('[data-word]')].find((w) => w.dataset.word === pressed);
  pressed = null;
  if (word) word.focus({preventScroll: true});
  else if (panel) {
    panel.focus({preventScroll: true});
    element.scrollIntoView({block: 'nearest'});
  }
});
"""
