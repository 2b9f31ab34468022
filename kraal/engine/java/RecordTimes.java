package kraal;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Sets the timestamp of a record from its last header, if that is `kraal.timestamp`, and removes the header. */
public final class RecordTimes implements ProducerInterceptor {
    public ProducerRecord onSend(ProducerRecord record) {
        Header[] all = record.headers().toArray();
        int last = all.length - 1;
        if (last < 0 || !all[last].key().equals("kraal.timestamp")) {
            return record;
        }
        byte[] text = all[last].value();
        long time = text == null ? -1L : Long.parseLong(new String(text, StandardCharsets.US_ASCII));
        Header[] headers = (Header[]) Arrays.copyOf(all, last);
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time),
            record.key(), record.value(), new RecordHeaders(headers)
        );
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    public void close() {}

    public void configure(Map configs) {}
}
