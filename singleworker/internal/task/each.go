package task

import "context"

// Each calls f for every item, for at most limit of them at a time, and returns the first
// error. An error cancels the context of the other calls.
func Each[T any](ctx context.Context, limit int, items []T, f func(ctx context.Context, i int, item T) error) error {
	room := make(chan struct{}, limit)
	tasks := NewGroup(ctx)
	for i, item := range items {
		room <- struct{}{}
		tasks.Go("each", func(ctx context.Context) error {
			defer func() { <-room }()
			return f(ctx, i, item)
		})
	}
	return tasks.Wait()
}

// Together calls f for 0 to n-1, for at most limit of them at a time. If a call panics, Together
// panics with its *PanicError when the others have returned.
func Together(limit, n int, f func(i int)) {
	err := Each(context.Background(), limit, make([]struct{}, n), func(_ context.Context, i int, _ struct{}) error {
		f(i)
		return nil
	})
	if err != nil {
		panic(err)
	}
}
