"""The few lines that run in the visitor's browser. They read attributes and never make HTML."""

from __future__ import annotations

READ_ADDRESS = "() => [window.location.search]"

# A result asks why, unless its text is being marked; the address of the page follows the results in sight, also
# around the frame of a Space.
ON_RESULTS = """
element.addEventListener('click', (event) => {
  const why = event.target.closest('.sl-hit')?.querySelector('.sl-why');
  const marking = !event.target.closest('.sl-why') && window.getSelection().type === 'Range';
  if (why && !marking) trigger('click', {id: why.dataset.id, stance: why.dataset.stance});
  const copy = event.target.closest('[data-copy]');
  if (copy) {
    const link = new URL(copy.dataset.address, window.location.href).href;
    const written = navigator.clipboard?.writeText(link) ?? Promise.reject();
    written.then(() => { copy.textContent = 'Copied'; }, () => { copy.textContent = 'It is in the address bar'; });
  }
});
function follow() {
  const answer = element.querySelector('.sl-answer, .sl-message');
  if (!answer || !element.checkVisibility()) return;
  const address = element.querySelector('[data-address]')?.dataset.address ?? '';
  window.history.replaceState(null, '', address || window.location.pathname);
  if (window.parent !== window) {
    window.parent.postMessage({queryString: address.slice(1)}, 'https://huggingface.co');
  }
}
watch('value', follow);
new ResizeObserver(follow).observe(element);  // a tab that is opened gives its results a size
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

# What gradio's inputs leave out for a keyboard: a slider whose key is let go was released, as by a pointer; and a list
# that Tab leaves would open again, did it hear of the key.
ON_KEYS = """
const MOVES = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'PageUp', 'PageDown', 'Enter'];
document.addEventListener('keyup', (event) => {
  if (MOVES.includes(event.key) && event.target.matches('input[type=range], input[type=number]')) {
    event.target.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}));
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Tab' && event.target.getAttribute('role') === 'combobox') event.stopPropagation();
}, true);
"""
