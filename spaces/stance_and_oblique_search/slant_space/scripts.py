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
    navigator.clipboard?.writeText(link).then(() => { copy.textContent = 'Copied'; });
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

ON_WHY = """
element.addEventListener('click', (event) => {
  const word = event.target.closest('[data-word]');
  if (word) trigger('click', {word: Number(word.dataset.word)});
});
let shown = null;
watch('value', () => {
  const panel = element.querySelector('blockquote');
  if (panel && panel.textContent !== shown) element.scrollIntoView({block: 'nearest'});
  shown = panel ? panel.textContent : null;
});
"""
