import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Measures two rounds of Connect's assignor in a warm JVM; prints a line of milliseconds for each repetition. */
public class AssignBench {
    private static Method perform;

    public static void main(String[] args) throws Exception {
        int members = Integer.parseInt(args[0]);
        int connectors = Integer.parseInt(args[1]) / Integer.parseInt(args[2]);
        int tasks = Integer.parseInt(args[2]);
        int times = Integer.parseInt(args[3]);
        perform = IncrementalCooperativeAssignor.class.getDeclaredMethod(
            "performTaskAssignment", ClusterConfigState.class, int.class, int.class, Map.class);
        perform.setAccessible(true);
        ClusterConfigState configState = makeConfigState(connectors, tasks);
        Map<String, ConnectorsAndTasks> idleMembers = new HashMap<>();
        for (int member = 0; member < members; member++)
            idleMembers.put(String.format("worker-%03d", member), new ConnectorsAndTasks.Builder().build());
        for (int number = -times; number < times; number++) { // negative numbers are the warm-up
            IncrementalCooperativeAssignor assignor = new IncrementalCooperativeAssignor(new LogContext(), Time.SYSTEM, 0);
            System.gc();
            long startNanos = System.nanoTime();
            Object outcome = perform.invoke(assignor, configState, -1, 1, idleMembers);
            long firstNanos = System.nanoTime() - startNanos;
            Map<String, ConnectorsAndTasks> remainingMembers = getAssignment(outcome, idleMembers.keySet());
            remainingMembers.remove("worker-000");
            System.gc();
            startNanos = System.nanoTime();
            perform.invoke(assignor, configState, 1, 2, remainingMembers);
            long secondNanos = System.nanoTime() - startNanos;
            if (number >= 0)
                System.out.println(firstNanos / 1e6 + " " + secondNanos / 1e6);
        }
    }

    private static ClusterConfigState makeConfigState(int connectors, int tasks) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> taskConfigs = new HashMap<>();
        for (int number = 0; number < connectors; number++) {
            String name = String.format("connector-%06d", number);
            counts.put(name, tasks);
            configs.put(name, Map.of());
            for (int task = 0; task < tasks; task++)
                taskConfigs.put(new ConnectorTaskId(name, task), Map.of());
        }
        return new ClusterConfigState(1, null, counts, configs, Map.of(), taskConfigs, Map.of(), Map.of(),
            Map.of(), Set.of(), Set.of());
    }

    @SuppressWarnings("unchecked")
    private static Map<String, ConnectorsAndTasks> getAssignment(Object outcome, Collection<String> members) throws Exception {
        Method connectors = outcome.getClass().getDeclaredMethod("allAssignedConnectors");
        Method tasks = outcome.getClass().getDeclaredMethod("allAssignedTasks");
        connectors.setAccessible(true);
        tasks.setAccessible(true);
        Map<String, Collection<String>> connectorsByMember = (Map<String, Collection<String>>) connectors.invoke(outcome);
        Map<String, Collection<ConnectorTaskId>> tasksByMember =
            (Map<String, Collection<ConnectorTaskId>>) tasks.invoke(outcome);
        Map<String, ConnectorsAndTasks> result = new HashMap<>();
        for (String member : members) {
            List<String> memberConnectors = new ArrayList<>(connectorsByMember.get(member));
            result.put(member, new ConnectorsAndTasks.Builder().with(memberConnectors, tasksByMember.get(member)).build());
        }
        return result;
    }
}
