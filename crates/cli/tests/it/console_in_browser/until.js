// Tells once an element is there whose text has these words, now or when the page has changed.
const [selector, words, tell] = arguments;
const holds = () => {
  const found = document.querySelector(selector);
  return found !== null && found.innerText.includes(words);
};
if (holds()) {
  tell(true);
} else {
  const observer = new MutationObserver(() => {
    if (!holds()) return;
    observer.disconnect();
    tell(true);
  });
  observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
}
