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

/**
 * Adds a prefix and a count to values. Drops values that start with drop; values that start with bad, later, block, deep
 * or nowhere cause faults.
 */
public final class Moody<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    private String prefix;
    private long count;
    private boolean hasFailed;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("prefix", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Prefix of the values.");
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
        if (value.startsWith("later") && !hasFailed) {
            hasFailed = true;
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
        R result = record.newRecord(
            value.startsWith("nowhere") ? null : record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            prefix + count + ":" + value, record.timestamp());
        result.headers().addLong("count", count);
        return result;
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
        // no resources
    }
}
