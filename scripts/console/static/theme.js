// The theme that was chosen, before anything is drawn.
"use strict";
{
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}
