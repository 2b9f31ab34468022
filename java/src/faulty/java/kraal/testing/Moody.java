package kraal.testing;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.transforms.Transformation;

/** Counts records, and acts on a value: bad, drop, later, block, deep, nowhere; otherwise prefixes it with the count. */
public final class Moody<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    private String prefix;
    private long count;
    private boolean tried;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("prefix", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "What values start with.");
    }

    @Override
    public void configure(Map<String, ?> configs) {
        prefix = new AbstractConfig(config(), configs).getString("prefix");
    }

    @Override
    public R apply(R record) {
        String value = String.valueOf(record.value());
        if (value.startsWith("bad")) {
            throw new DataException(value);
        }
        if (value.startsWith("later") && !tried) {
            tried = true;
            throw new RetriableException(value);
        }
        if (value.startsWith("block")) {
            block();
        }
        if (value.startsWith("deep")) {
            throw new StackOverflowError(value);
        }
        count++;
        if (value.startsWith("drop")) {
            return null;
        }
        R made = record.newRecord(
            value.startsWith("nowhere") ? null : record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            prefix + count + ":" + value, record.timestamp());
        made.headers().addLong("count", count);
        return made;
    }

    private static void block() {
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException e) {
            throw new DataException(e);
        }
    }

    @Override
    public void close() {
        // nothing is open
    }
}
