// Hover text of the charts: takes over from <title>, so that touch and keyboard get it too.
(function () {
  var tip = document.getElementById("tip"), on = null;
  document.querySelectorAll("svg title").forEach(function (t) {
    t.parentNode.setAttribute("data-tip", t.textContent);
    t.remove();
  });
  function hide() { on = null; tip.hidden = true; }
  function show(node, x, y) {
    if (node !== on) { on = node; tip.textContent = node.getAttribute("data-tip"); tip.hidden = false; }
    var w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(8, Math.min(x - w / 2, innerWidth - w - 8)) + "px";
    tip.style.top = (y - h - 14 < 4 ? y + 18 : y - h - 14) + "px";
  }
  function over(e) {
    var node = e.target.closest ? e.target.closest("[data-tip]") : null;
    if (node) show(node, e.clientX, e.clientY); else hide();
  }
  addEventListener("pointermove", over);
  addEventListener("pointerdown", over);
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", function (e) { if (e.key === "Escape") hide(); });
  addEventListener("focusin", function (e) {
    var node = e.target.querySelector ? e.target.querySelector("[data-tip]") : null;
    if (!node || !e.target.closest("svg")) return;
    var box = node.getBoundingClientRect();
    show(node, box.left + box.width / 2, box.top);
  });
})();
