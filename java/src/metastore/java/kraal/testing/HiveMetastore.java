package kraal.testing;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/**
 * Hive's metastore, with the tables for locks, which Hive otherwise creates with its scripts. The arguments are those of
 * Hive's main class. Its settings are system properties.
 */
public final class HiveMetastore {
    private HiveMetastore() {
    }

    public static void main(String[] arguments) throws Throwable {
        TxnDbUtil.prepDb(new HiveConf());
        HiveMetaStore.main(arguments);
    }
}
