package org.apache.kafka.common.utils;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;

/** For plugins that were built for a Kafka before 4.4, which no longer has this class. Source: CollectionUtils (Kafka 4.3.0). */
public final class CollectionUtils {
    private CollectionUtils() {
    }

    /** Returns the entries of one map whose keys another does not have. */
    public static <K, V> Map<K, V> subtractMap(Map<? extends K, ? extends V> minuend, Map<? extends K, ? extends V> subtrahend) {
        Map<K, V> difference = new HashMap<>(minuend);
        difference.keySet().removeAll(subtrahend.keySet());
        return difference;
    }

    /** Returns values by topic and partition. */
    public static <T> Map<String, Map<Integer, T>> groupPartitionDataByTopic(Map<TopicPartition, ? extends T> values) {
        Map<String, Map<Integer, T>> topics = new HashMap<>();
        values.forEach((partition, value) ->
            topics.computeIfAbsent(partition.topic(), topic -> new HashMap<>()).put(partition.partition(), value));
        return topics;
    }

    /** Returns the numbers of partitions by topic. */
    public static Map<String, List<Integer>> groupPartitionsByTopic(Collection<TopicPartition> partitions) {
        return groupPartitionsByTopic(partitions, topic -> new ArrayList<>(), List::add);
    }

    /** Returns the partitions of each topic, in a container that {@code make} makes and {@code add} adds a number to. */
    public static <T> Map<String, T> groupPartitionsByTopic(
        Collection<TopicPartition> partitions, Function<String, T> make, BiConsumer<T, Integer> add) {
        Map<String, T> topics = new HashMap<>();
        partitions.forEach(each -> add.accept(topics.computeIfAbsent(each.topic(), make), each.partition()));
        return topics;
    }
}
