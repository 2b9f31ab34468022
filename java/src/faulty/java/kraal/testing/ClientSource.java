package kraal.testing;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source with its own Kafka clients and an MBean with a fixed name, like connectors with a history topic. */
public final class ClientSource extends SourceConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return HistoryTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(config);
    }

    @Override
    public void stop() {
        // only the task has resources
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Topic of the records.")
            .define("history", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Private topic of the task.")
            .define("bootstrap", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Address of the broker.");
    }

    /** The interface of the task's MBean. */
    public interface StartsMBean {
        /** Returns the number of task starts. */
        int getStarts();
    }

    /** The MBean, which contains the number of task starts. */
    public record Starts(int getStarts) implements StartsMBean {
    }

    /** Counts starts in the history topic. Returns one record per start: the client version and the numbers of starts and MBeans. */
    public static final class HistoryTask extends SourceTask {
        private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        private Map<String, String> config;
        private ObjectName bean;
        private boolean hasReturned;
        private long starts;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> props) {
            config = props;
            hasReturned = false;
            try {
                starts = count();
                bean = new ObjectName("kraal.testing:type=ClientSource");
                server.registerMBean(new Starts((int) starts), bean);
            } catch (Exception e) {
                throw new ConnectException("Unable to register the MBean", e);
            }
        }

        /** Writes a record to the history topic, and returns the number of records in the topic. */
        private long count() throws Exception {
            Map<String, Object> clients = Map.of(
                "bootstrap.servers", config.get("bootstrap"),
                "key.serializer", StringSerializer.class.getName(),
                "value.serializer", StringSerializer.class.getName(),
                "key.deserializer", StringDeserializer.class.getName(),
                "value.deserializer", StringDeserializer.class.getName());
            TopicPartition history = new TopicPartition(config.get("history"), 0);
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(clients);
                    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(clients)) {
                producer.send(new ProducerRecord<>(history.topic(), 0, "start", "déjà")).get();
                long end = consumer.endOffsets(Set.of(history)).get(history);
                consumer.assign(Set.of(history));
                consumer.seekToBeginning(Set.of(history));
                long read = 0;
                while (consumer.position(history) < end) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        read += record.value().equals("déjà") ? 1 : 0;
                    }
                }
                return read;
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(100);
            if (hasReturned) {
                return null;
            }
            hasReturned = true;
            String text = AppInfoParser.getVersion() + " " + starts + " " + server.queryNames(bean, null).size();
            return List.of(new SourceRecord(
                Map.of("id", "0"), Map.of("starts", starts), config.get("topic"), Schema.STRING_SCHEMA, text));
        }

        @Override
        public void stop() {
            try {
                server.unregisterMBean(bean);
            } catch (JMException e) {
                throw new ConnectException(e);
            }
        }
    }
}
