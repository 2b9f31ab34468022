package kraal;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import org.apache.kafka.clients.producer.KafkaProducer;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.mutable.HashMap;

/** Closes Kafka producers in Spark's pool, and drops their unsent records. */
public final class Producers {
    private static final String POOL = "org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$";

    public int end(String client) throws Exception {
        Object pool = field(Class.forName(POOL), "pool").get(null);
        ArrayList producers = new ArrayList();
        synchronized (pool) {
            HashMap cache = (HashMap) valueOf(pool, "cache");
            Iterator entries = cache.toList().iterator();
            while (entries.hasNext()) {
                Tuple2 entry = (Tuple2) entries.next();
                if (client == null || entry._1().toString().contains("(client.id," + client + ")")) {
                    cache.remove(entry._1());
                    producers.add(valueOf(valueOf(entry._2(), "producer"), "producer"));
                }
            }
        }
        for (int i = 0; i < producers.size(); i++) {
            ((KafkaProducer) producers.get(i)).close(Duration.ZERO);
        }
        return producers.size();
    }

    private static Object valueOf(Object object, String name) throws Exception {
        return field(object.getClass(), name).get(object);
    }

    private static Field field(Class type, String name) throws Exception {
        Field result = type.getDeclaredField(name);
        result.setAccessible(true);
        return result;
    }
}
