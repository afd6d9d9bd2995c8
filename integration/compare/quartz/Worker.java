import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.quartz.CronScheduleBuilder;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobExecutionContext;
import org.quartz.JobExecutionException;
import org.quartz.Scheduler;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * One of several equal processes that run the same jobs with Quartz, on one JDBC job store. Its jobs do nothing but
 * append a line to a file. Arguments: JDBC URL, id, number of jobs, seconds between ticks, file, milliseconds that
 * a run takes, threads, batch; and "prepare" for the one that only stores the jobs.
 */
public class Worker {
    static FileOutputStream ledger;
    static long length;

    public static class Tick implements Job {
        @Override
        public void execute(JobExecutionContext context) throws JobExecutionException {
            String line = context.getJobDetail().getKey().getName() + " " + context.getScheduledFireTime().getTime()
                    + " " + System.currentTimeMillis() + "\n";
            try {
                Thread.sleep(length);
                ledger.write(line.getBytes(StandardCharsets.UTF_8)); // one write is one line
            } catch (java.io.IOException | InterruptedException e) {
                throw new JobExecutionException(e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        int jobs = Integer.parseInt(args[2]);
        ledger = new FileOutputStream(args[4], true);
        length = Long.parseLong(args[5]);
        Properties p = new Properties();
        p.setProperty("org.quartz.scheduler.instanceName", "compare");
        p.setProperty("org.quartz.scheduler.instanceId", args[1]);
        p.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
        p.setProperty("org.quartz.threadPool.threadCount", args[6]);
        p.setProperty("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", args[7]);
        p.setProperty("org.quartz.jobStore.acquireTriggersWithinLock", "true");
        p.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        p.setProperty("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        p.setProperty("org.quartz.jobStore.isClustered", "true");
        p.setProperty("org.quartz.jobStore.dataSource", "db");
        p.setProperty("org.quartz.dataSource.db.provider", "hikaricp");
        p.setProperty("org.quartz.dataSource.db.driver", "org.postgresql.Driver");
        p.setProperty("org.quartz.dataSource.db.URL", args[0]);
        p.setProperty("org.quartz.dataSource.db.user", "compare");
        p.setProperty("org.quartz.dataSource.db.password", "");
        p.setProperty("org.quartz.dataSource.db.maxConnections", String.valueOf(Integer.parseInt(args[6]) + 3));
        Scheduler scheduler = new StdSchedulerFactory(p).getScheduler();
        if (args.length == 8) {
            scheduler.start();
            return;
        }
        for (int k = 0; k < jobs; k++) {
            String name = String.format("job-%04d", k);
            scheduler.scheduleJob(JobBuilder.newJob(Tick.class).withIdentity(name).build(), TriggerBuilder.newTrigger()
                    .withIdentity(name).withSchedule(CronScheduleBuilder.cronSchedule("0/" + args[3] + " * * * * ?")).build());
        }
        scheduler.shutdown();
    }
}
