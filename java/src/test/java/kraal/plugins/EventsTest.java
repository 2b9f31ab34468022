package kraal.plugins;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.junit.jupiter.api.Test;

/** Tests for {@link Events}, {@link Json} and {@link Partial}. */
final class EventsTest {
    @Test
    void takeReturnsAllEventsInOrder() throws InterruptedException {
        Events events = new Events();
        events.addTaskEvent(new ConnectorTaskId("a", 1), 7, "started", null);
        events.addConnectorEvent("a", 8, "reconfigure", null);
        List<Map<String, Object>> takenEvents = events.take(0);
        assertEquals(2, takenEvents.size());
        assertEquals(7L, takenEvents.get(0).get("run"));
        assertEquals("reconfigure", takenEvents.get(1).get("what"));
        assertEquals(List.of(), events.take(0));
    }

    @Test
    void integersAreParsedAsLongAndNullOffsetsStayNull() {
        List<List<Map<String, Object>>> pairs = Json.pairs("[[{\"file\":\"x\"},{\"position\":5}],[{\"file\":\"y\"},null]]");
        assertEquals(5L, pairs.get(0).get(1).get("position"));
        assertEquals(null, pairs.get(1).get(1));
    }

    @Test
    void unimplementedMethodsOfAPartialObjectThrow() {
        Supplier<?> five = Partial.of(Supplier.class, Map.of("get", none -> 5));
        assertEquals(5, five.get());
        Supplier<?> empty = Partial.of(Supplier.class, Map.of());
        assertThrows(UnsupportedOperationException.class, empty::get);
    }
}
