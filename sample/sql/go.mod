module github.com/swjobs/singleworker/sample/sql

go 1.25.0

require (
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/swjobs/singleworker v0.0.0
)

require (
	github.com/go-co-op/gocron/v2 v2.21.2 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
)
