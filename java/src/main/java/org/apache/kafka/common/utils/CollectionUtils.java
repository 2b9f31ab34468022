package org.apache.kafka.common.utils;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;

/** A class that Kafka 4.4 has removed, for plugins built with earlier versions. Source: CollectionUtils (Kafka 4.3.0). */
public final class CollectionUtils {
    private CollectionUtils() {
    }

    /** Returns the entries of one map whose keys are not in another. */
    public static <K, V> Map<K, V> subtractMap(Map<? extends K, ? extends V> minuend, Map<? extends K, ? extends V> subtrahend) {
        Map<K, V> difference = new HashMap<>(minuend);
        difference.keySet().removeAll(subtrahend.keySet());
        return difference;
    }

    /** Groups values by topic and partition. */
    public static <T> Map<String, Map<Integer, T>> groupPartitionDataByTopic(Map<TopicPartition, ? extends T> values) {
        Map<String, Map<Integer, T>> topics = new HashMap<>();
        values.forEach((partition, value) ->
            topics.computeIfAbsent(partition.topic(), topic -> new HashMap<>()).put(partition.partition(), value));
        return topics;
    }

    /** Groups partition numbers by topic. */
    public static Map<String, List<Integer>> groupPartitionsByTopic(Collection<TopicPartition> partitions) {
        return groupPartitionsByTopic(partitions, topic -> new ArrayList<>(), List::add);
    }

    /** Groups partitions by topic, in containers created by {@code make} and filled by {@code add}. */
    public static <T> Map<String, T> groupPartitionsByTopic(
        Collection<TopicPartition> partitions, Function<String, T> make, BiConsumer<T, Integer> add) {
        Map<String, T> topics = new HashMap<>();
        partitions.forEach(partition ->
            add.accept(topics.computeIfAbsent(partition.topic(), make), partition.partition()));
        return topics;
    }
}
