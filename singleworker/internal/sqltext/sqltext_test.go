package sqltext

import "testing"

func TestNumbered(t *testing.T) {
	t.Parallel()
	const query, want = "UPDATE t SET ä=? WHERE a=? AND b IN (?,?)", "UPDATE t SET ä=$1 WHERE a=$2 AND b IN ($3,$4)"
	if got := Numbered(query); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
