import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.retry.RetryForever;

/**
 * A process that contends with Apache Curator's own LeaderLatch. It holds a lock of the kernel's
 * while it leads, and says on standard output what happens, as child_test.go does.
 */
public final class Contender implements LeaderLatchListener {
    private final FileChannel file;
    private FileLock lock;

    private Contender(FileChannel file) {
        this.file = file;
    }

    public static void main(String[] args) throws Exception {
        String servers = args[0], path = args[1], id = args[2], lockFile = args[3];
        int sessionMillis = Integer.parseInt(args[4]);
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(servers)
                .sessionTimeoutMs(sessionMillis)
                .connectionTimeoutMs(sessionMillis)
                .retryPolicy(new RetryForever(100))
                .build();
        client.start();
        Contender contender = new Contender(FileChannel.open(Path.of(lockFile), StandardOpenOption.WRITE));
        LeaderLatch latch = new LeaderLatch(client, path, id);
        latch.addListener(contender);
        latch.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command; (command = commands.readLine()) != null; ) {
            switch (command) {
                case "participants":
                    say("participants", latch.getParticipants().stream()
                            .map(Participant::getId).collect(Collectors.joining(",")));
                    break;
                case "stop":
                    contender.notLeader(); // before the place is given up
                    latch.close();
                    client.close();
                    System.exit(0);
            }
        }
        Runtime.getRuntime().halt(1); // nobody is there any more
    }

    @Override
    public synchronized void isLeader() {
        try {
            lock = file.tryLock();
        } catch (Exception e) {
            say("violation", e.toString());
        }
        if (lock == null) {
            say("violation", "leads while another process does");
        }
        say("gained", "");
    }

    @Override
    public synchronized void notLeader() {
        if (lock == null) {
            return;
        }
        try {
            lock.release();
        } catch (Exception e) {
            say("violation", e.toString());
        }
        lock = null;
        say("lost", "");
    }

    private static void say(String what, String more) {
        long micros = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
        System.out.println(what + " " + micros + " " + more);
    }
}
