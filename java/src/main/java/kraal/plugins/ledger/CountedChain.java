package kraal.plugins.ledger;

import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.runtime.TransformationChain;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;

/** The transforms of a task. Reports the records that a transform has dropped. */
public final class CountedChain<T, R extends ConnectRecord<R>> extends TransformationChain<T, R> {
    private final TransformationChain<T, R> chain;
    private final Consumer<T> onDrop;

    /** {@code onDrop} receives the original record. */
    public CountedChain(
        TransformationChain<T, R> chain, RetryWithToleranceOperator<T> retries, Consumer<T> onDrop) {
        super(List.of(), retries);
        this.chain = chain;
        this.onDrop = onDrop;
    }

    @Override
    public R apply(ProcessingContext<T> context, R record) {
        R result = chain.apply(context, record);
        if (result == null && !context.failed()) {
            onDrop.accept(context.original());
        }
        return result;
    }

    @Override
    public void close() {
        chain.close();
    }

    @Override
    public String toString() {
        return chain.toString();
    }
}
