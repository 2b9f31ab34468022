package kraal.plugins.ledger;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;

/** An error reporter of a sink task. Counts the records that have failed. */
public final class CountedReporter implements ErrorReporter<ConsumerRecord<byte[], byte[]>> {
    private final ErrorReporter<ConsumerRecord<byte[], byte[]>> reporter;
    private final SinkCounts counts;

    private CountedReporter(ErrorReporter<ConsumerRecord<byte[], byte[]>> reporter, SinkCounts counts) {
        this.reporter = reporter;
        this.counts = counts;
    }

    /** Returns the reporters, one of which counts: the writer of dead letters, or the first one if there is none. */
    public static List<ErrorReporter<ConsumerRecord<byte[], byte[]>>> count(
        List<ErrorReporter<ConsumerRecord<byte[], byte[]>>> reporters, SinkCounts counts) {
        List<ErrorReporter<ConsumerRecord<byte[], byte[]>>> all = new ArrayList<>(reporters);
        int index = 0;
        for (ErrorReporter<ConsumerRecord<byte[], byte[]>> each : reporters) {
            if (each instanceof DeadLetterQueueReporter) {
                index = reporters.indexOf(each);
            }
        }
        all.set(index, new CountedReporter(all.get(index), counts));
        return all;
    }

    @Override
    public Future<RecordMetadata> report(ProcessingContext<ConsumerRecord<byte[], byte[]>> context) {
        Future<RecordMetadata> result = reporter.report(context);
        Future<RecordMetadata> letter = reporter instanceof DeadLetterQueueReporter ? result : null;
        if (context.stage() == Stage.TASK_PUT) {
            counts.report(context.original(), letter);
        } else {
            counts.fail(context.original(), letter);
        }
        return result;
    }

    @Override
    public void close() {
        try {
            reporter.close();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
