// Package browser has tests of package web in a real browser: Debian's Chromium, driven by
// playwright-core, with axe-core for accessibility. install.sh installs their requirements. They
// fail without it.
package browser
