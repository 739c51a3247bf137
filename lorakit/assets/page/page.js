
const form = document.getElementById("filter");
if (form) {
  const words = document.getElementById("words");
  const doubtful = document.getElementById("doubtful");
  const shown = document.getElementById("shown");
  const cards = [...document.querySelectorAll(".card")];
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    let count = 0;
    cards.forEach((card, n) => {
      const fits = wanted.every((word) => texts[n].includes(word));
      card.hidden = !fits || (doubtful.checked && !card.classList.contains("doubtful"));
      count += !card.hidden;
    });
    shown.textContent = `${count} of ${cards.length} shown`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
}
