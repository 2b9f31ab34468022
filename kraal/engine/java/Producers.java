package kraal;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import org.apache.kafka.clients.producer.KafkaProducer;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.mutable.HashMap;

/** Closes Kafka producers of Spark's pool, and drops the records that they hold. */
public final class Producers {
    private static final String POOL = "org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$";

    public int end(String client) throws Exception {
        Object pool = field(Class.forName(POOL), "pool").get(null);
        ArrayList ended = new ArrayList();
        synchronized (pool) {
            HashMap cache = (HashMap) of(pool, "cache");
            Iterator entries = cache.toList().iterator();
            while (entries.hasNext()) {
                Tuple2 entry = (Tuple2) entries.next();
                if (client == null || entry._1().toString().contains("(client.id," + client + ")")) {
                    cache.remove(entry._1());
                    ended.add(of(of(entry._2(), "producer"), "producer"));
                }
            }
        }
        for (int i = 0; i < ended.size(); i++) {
            ((KafkaProducer) ended.get(i)).close(Duration.ZERO);
        }
        return ended.size();
    }

    private static Object of(Object object, String name) throws Exception {
        return field(object.getClass(), name).get(object);
    }

    private static Field field(Class type, String name) throws Exception {
        Field found = type.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }
}
